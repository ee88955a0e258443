//! All chapters, in order.

use super::chapter::{Chapter, Start, scenario};
use super::{
    attach, change, configuration, failure, gateway, http2, leave, metrics, node_agent, overload, remote, routes,
    shipped, unlabelled,
};

/// All chapters.
pub const CHAPTERS: &[Chapter] = &[
    Chapter {
        name: "attach",
        start: Start::Istio,
        all_accept: true,
        scenarios: &[
            scenario!(attach::the_shop_answers_without_bloc),
            scenario!(shipped::istioctl_and_the_api_server_accept_every_manifest),
            scenario!(attach::the_shipped_manifests_attach_the_filters_to_the_shop),
            scenario!(shipped::istioctl_finds_nothing_wrong_in_the_cluster),
            scenario!(attach::pods_refuse_requests_without_mutual_tls),
            scenario!(attach::workloads_may_not_read_the_state_of_the_control_plane),
            scenario!(attach::applications_and_clients_see_no_internal_headers),
        ],
    },
    Chapter {
        name: "parameters",
        start: Start::Attached,
        all_accept: true,
        scenarios: &[
            scenario!(overload::backends_reject_excess_requests_and_senders_retry_elsewhere),
            scenario!(change::an_edit_of_the_config_map_takes_effect),
            scenario!(change::a_refused_edit_of_the_config_map_changes_nothing),
        ],
    },
    Chapter {
        name: "unlabelled",
        start: Start::Attached,
        all_accept: true,
        scenarios: &[
            scenario!(unlabelled::workloads_with_and_without_the_label_reach_each_other),
            scenario!(unlabelled::strip_hides_bids_from_applications_without_the_label),
            scenario!(unlabelled::strip_hides_load_reports_from_clients_outside_the_mesh),
        ],
    },
    Chapter {
        name: "routes",
        start: Start::Attached,
        all_accept: true,
        scenarios: &[
            scenario!(routes::redirects_and_direct_responses_stay_unchanged),
            scenario!(routes::retries_follow_the_number_in_a_virtual_service),
            scenario!(http2::sidecars_use_http2_with_each_other_but_not_with_applications),
        ],
    },
    Chapter {
        name: "configuration",
        start: Start::Attached,
        all_accept: true,
        scenarios: &[scenario!(configuration::no_request_hangs_while_the_filters_are_edited_and_removed)],
    },
    Chapter {
        name: "gateway",
        start: Start::Attached,
        all_accept: true,
        scenarios: &[
            scenario!(gateway::a_gateway_chooses_among_the_frontends),
            scenario!(gateway::internal_headers_do_not_pass_the_gateway),
            scenario!(gateway::a_redirect_named_like_a_patched_route_stays_a_redirect),
            scenario!(gateway::a_gateway_with_filters_works_before_sidecars_without_them),
            scenario!(gateway::the_gateway_answers_after_its_filters_are_removed),
        ],
    },
    Chapter {
        name: "failure",
        start: Start::Attached,
        all_accept: false,
        scenarios: &[
            scenario!(failure::the_shop_keeps_working_without_the_control_plane),
            scenario!(failure::a_pod_whose_module_is_missing_serves_without_filters),
            scenario!(failure::a_pod_whose_module_is_invalid_serves_without_filters),
        ],
    },
    Chapter {
        name: "metrics",
        start: Start::Attached,
        all_accept: true,
        scenarios: &[
            scenario!(metrics::a_prometheus_outside_the_mesh_scrapes_all_proxies_and_replicas),
            scenario!(metrics::rejections_and_exhausted_retries_fire_their_alerts),
            scenario!(metrics::an_overload_fires_its_alert_and_autoscalers_get_their_numbers),
            scenario!(metrics::a_refused_or_stale_configuration_or_lost_replicas_fire_alerts),
        ],
    },
    Chapter {
        name: "node-agent",
        start: Start::Attached,
        all_accept: true,
        scenarios: &[
            scenario!(node_agent::the_overlay_runs_an_agent_that_observes),
            scenario!(node_agent::sidecars_follow_the_quotas_of_which_the_agent_tells_the_control_plane),
            scenario!(node_agent::a_limit_over_nodes_is_leased_to_the_node_of_the_token),
            scenario!(node_agent::response_times_come_to_an_agent_in_qos_mode),
            scenario!(node_agent::a_sidecar_whose_agent_is_gone_uses_what_is_configured),
            scenario!(node_agent::uninstalled_a_sidecar_uses_what_is_configured),
        ],
    },
    Chapter {
        name: "remote",
        start: Start::Attached,
        all_accept: false,
        scenarios: &[
            scenario!(remote::the_module_can_be_downloaded),
            scenario!(remote::a_pod_that_downloads_another_file_serves_without_filters),
            scenario!(remote::a_pod_whose_download_fails_serves_without_filters),
        ],
    },
    Chapter {
        name: "leave",
        start: Start::Attached,
        all_accept: false,
        scenarios: &[
            scenario!(leave::a_workload_without_the_label_loses_the_filters),
            scenario!(leave::uninstalling_leaves_nothing_in_the_cluster),
        ],
    },
];

/// The names of all chapters, in order.
pub fn chapters() -> Vec<&'static str> {
    CHAPTERS.iter().map(|chapter| chapter.name).collect()
}
