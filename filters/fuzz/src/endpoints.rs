//! A sender with requests under way, among servers that report anything.

use arbitrary::{Result, Unstructured};
use bloc_policy::config::{RoutingKind, ServiceSpec};
use bloc_policy::endpoints::{Answer, Endpoint, EndpointId};
use bloc_policy::sender::{Attempt, Sender};
use bloc_policy::units::Timestamp;
use bloc_policy::wire::load_report::LoadReport;
use bloc_policy::wire::orca;
use std::collections::BTreeSet;
use std::time::Duration;

/// The most servers that are learned from answers.
const ADDRESSES: u8 = 12;

/// Reads endpoint lists and answers from the bytes, one after the other.
pub fn endpoints(data: &[u8]) {
    // An error means that the bytes are used up.
    let _ = work(&mut Unstructured::new(data));
}

fn work(bytes: &mut Unstructured<'_>) -> Result<()> {
    let routing = *bytes.choose(RoutingKind::ALL)?;
    let spec = ServiceSpec { routing: Some(routing), slo: Some("1s".into()), ..ServiceSpec::default() };
    let named = |bytes: &mut Unstructured<'_>| -> Result<Option<Vec<String>>> {
        let text: &str = bytes.arbitrary()?;
        Ok((!text.is_empty()).then(|| text.split(',').map(str::to_owned).collect()))
    };
    let mut now = Timestamp::ZERO;
    let mut rng = fastrand::Rng::with_seed(bytes.arbitrary()?);
    let with = |endpoints| ServiceSpec { endpoints, ..spec.clone() }.validate();
    let Ok(parameters) = with(named(bytes)?) else { return Ok(()) };
    let mut sender = Sender::new(parameters, now);
    let mut under_way: Vec<Attempt> = Vec::new();
    while !bytes.is_empty() {
        match bytes.int_in_range(0..=6u8)? {
            0 => now = now.after(Duration::from_millis(bytes.arbitrary::<u16>()?.into())),
            1 => now = now.after(Duration::from_secs(bytes.arbitrary::<u32>()?.into())),
            2 => {
                if let Ok(parameters) = with(named(bytes)?) {
                    sender.configure(parameters, now);
                }
            }
            3 => {
                let address = format!("10.0.0.{}:80", bytes.int_in_range(1..=ADDRESSES)?);
                if let Some(attempt) = sender.begin(&address, None, now) {
                    sender.end(&attempt);
                }
            }
            4 => {
                let attempt = usize::from(bytes.int_in_range(0..=16u8)?);
                let chosen = choose(&mut sender, now, &mut rng);
                if let Some(&id) = chosen.get(attempt).or(chosen.first()) {
                    let address = sender.endpoints().get(id).map(Endpoint::address).unwrap_or_default().to_owned();
                    under_way.push(
                        sender.begin(&address, Some(sender.turn(attempt)), now).expect("a chosen server is there"),
                    );
                }
            }
            5 if !under_way.is_empty() => {
                let attempt = under_way.swap_remove(bytes.choose_index(under_way.len())?);
                let answer = answer(bytes)?;
                sender.answer(&attempt, answer, now);
                sender.end(&attempt);
            }
            6 if !under_way.is_empty() => {
                let attempt = under_way.swap_remove(bytes.choose_index(under_way.len())?);
                sender.end(&attempt);
                sender.missing(attempt.endpoint, now);
            }
            _ => {}
        }
    }
    choose(&mut sender, now, &mut rng);
    for attempt in under_way {
        sender.answer(&attempt, Answer::Failed, now);
        sender.end(&attempt);
    }
    for (_, endpoint) in sender.endpoints().iter() {
        assert_eq!(endpoint.pending(), 0, "{endpoint:?}");
    }
    Ok(())
}

fn choose(sender: &mut Sender, now: Timestamp, rng: &mut fastrand::Rng) -> Vec<EndpointId> {
    let chosen = sender.choose(now, rng).to_vec();
    assert!(chosen.len() <= sender.retries(0, true).left() as usize + 1, "{chosen:?}");
    // Each server once, before the list starts again.
    let once = chosen.len().min(sender.endpoints().len());
    assert_eq!(chosen.iter().take(once).collect::<BTreeSet<_>>().len(), once, "{chosen:?}");
    if sender.parameters().endpoints().is_some() {
        let length = sender.endpoints().len().min(sender.retries(0, true).left() as usize + 1);
        assert!(chosen.len() >= length, "whatever a server says, it stays in the list");
    }
    assert!(chosen.iter().all(|&id| sender.endpoints().get(id).is_some()), "no server that is gone");
    let list = sender.chosen().collect::<Vec<_>>().join(",");
    assert!(list.bytes().all(|byte| byte.is_ascii_graphic()), "{list}");
    for attempt in 0..5 {
        let [bid, next] = [attempt, attempt + 1].map(|number| sender.bid(sender.turn(number)));
        if let (Some(bid), Some(next)) = (bid, next) {
            assert!(bid <= next, "bids rise: {bid:?}, {next:?}");
        }
    }
    let _ = sender.overrun();
    chosen
}

fn answer(bytes: &mut Unstructured<'_>) -> Result<Answer> {
    let kind = bytes.int_in_range(0..=11u8)?;
    let header: &[u8] = bytes.arbitrary()?;
    let report = || LoadReport::decode(header).unwrap_or_default();
    Ok(match kind {
        0 => Answer::Served(report()),
        1 => Answer::Rejected(report()),
        2 => Answer::Bounced(report()),
        3 => Answer::Failed,
        5 => Answer::RejectedForDeadline(report()),
        6 => Answer::Erred(Some(report())),
        7 => Answer::Erred(None),
        8 => Answer::GivenUp,
        9 => Answer::ClientError(Some(report())),
        10 => Answer::ClientError(None),
        4 => orca::decode(header).map_or(Answer::Unreported, Answer::Orca),
        _ => Answer::Unreported,
    })
}
