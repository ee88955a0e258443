//! All chapters, in order.

use super::chapter::{Chapter, Start, scenario};
use super::{
    attach, change, configuration, failure, gateway, http2, leave, metrics, overload, remote, routes, shipped,
    strangers,
};

/// All of it.
pub const CHAPTERS: &[Chapter] = &[
    Chapter {
        name: "attach",
        start: Start::Istio,
        all_accept: true,
        scenarios: &[
            scenario!(attach::the_shop_answers_without_bloc),
            scenario!(shipped::istioctl_and_the_api_server_accept_every_manifest),
            scenario!(attach::the_manifests_as_shipped_attach_it),
            scenario!(shipped::istioctl_finds_nothing_in_the_cluster),
            scenario!(attach::only_mutual_tls_is_spoken),
            scenario!(attach::the_mesh_may_not_read_what_the_control_plane_knows),
            scenario!(attach::nothing_internal_is_seen_by_applications_or_clients),
        ],
    },
    Chapter {
        name: "parameters",
        start: Start::Attached,
        all_accept: true,
        scenarios: &[
            scenario!(overload::what_exceeds_the_capacity_is_rejected_and_retried_elsewhere),
            scenario!(change::an_edit_of_the_config_map_takes_effect),
            scenario!(change::an_edit_that_is_refused_changes_nothing),
        ],
    },
    Chapter {
        name: "strangers",
        start: Start::Attached,
        all_accept: true,
        scenarios: &[
            scenario!(strangers::workloads_with_and_without_the_label_talk_to_each_other),
            scenario!(strangers::with_strip_pods_without_the_label_are_spared_the_bid),
            scenario!(strangers::with_strip_nobody_outside_is_taken_for_a_caller),
        ],
    },
    Chapter {
        name: "routes",
        start: Start::Attached,
        all_accept: true,
        scenarios: &[
            scenario!(routes::redirects_and_direct_responses_stay_what_they_are),
            scenario!(routes::retries_are_as_many_as_a_virtual_service_says),
            scenario!(http2::sidecars_speak_http2_with_each_other_and_not_with_applications),
        ],
    },
    Chapter {
        name: "configuration",
        start: Start::Attached,
        all_accept: true,
        scenarios: &[scenario!(configuration::one_that_is_edited_reverted_and_removed_costs_no_request)],
    },
    Chapter {
        name: "gateway",
        start: Start::Attached,
        all_accept: true,
        scenarios: &[
            scenario!(gateway::a_gateway_chooses_among_the_frontends),
            scenario!(gateway::nothing_internal_passes_the_gateway),
            scenario!(gateway::a_redirect_with_the_name_of_the_patched_routes_stays_one),
            scenario!(gateway::a_gateway_alone_works_before_plain_sidecars),
            scenario!(gateway::the_gateway_opts_out),
        ],
    },
    Chapter {
        name: "failure",
        start: Start::Attached,
        all_accept: false,
        scenarios: &[
            scenario!(failure::without_the_control_plane_everything_goes_on),
            scenario!(failure::a_pod_whose_module_is_missing_serves),
            scenario!(failure::a_pod_whose_module_is_garbage_serves),
        ],
    },
    Chapter {
        name: "metrics",
        start: Start::Attached,
        all_accept: true,
        scenarios: &[
            scenario!(metrics::a_prometheus_outside_of_the_mesh_finds_everything),
            scenario!(metrics::who_rejects_fires_its_alerts),
            scenario!(metrics::an_overload_fires_its_alert_and_autoscalers_get_their_numbers),
            scenario!(metrics::what_the_control_plane_lacks_fires_its_alerts),
        ],
    },
    Chapter {
        name: "remote",
        start: Start::Attached,
        all_accept: false,
        scenarios: &[
            scenario!(remote::the_module_can_be_downloaded),
            scenario!(remote::a_pod_whose_download_is_not_the_module_serves),
            scenario!(remote::a_pod_whose_download_fails_serves),
        ],
    },
    Chapter {
        name: "leave",
        start: Start::Attached,
        all_accept: false,
        scenarios: &[scenario!(leave::a_workload_opts_out), scenario!(leave::uninstall_leaves_nothing)],
    },
];

/// The names of all chapters, in order.
pub fn chapters() -> Vec<&'static str> {
    CHAPTERS.iter().map(|chapter| chapter.name).collect()
}
