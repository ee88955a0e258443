//! Retries that users or their applications configure stay as in stock Envoy.

use crate::support::Place;
use bloc_lab::experiments::retries::{CASES, Stand, Table, WAYS};

/// Attempts that stock Envoy makes according to the documentation, in the order of the cases.
const STOCK: [u64; CASES.len()] = [1, 3, 2, 2, 11, 6, 3, 2, 1, 3, 3, 1, 7, 2, 5, 2, 2];

#[tokio::test(flavor = "multi_thread")]
async fn retries_a_failing_application_as_often_as_stock_envoy() {
    let place = Place::new();
    let stand = Stand::start(&place.envoy, &place.module, place.path()).await.unwrap();
    let mut table = Table::default();
    for (case, expected) in CASES.iter().zip(STOCK) {
        let courses = stand.see(case).await.unwrap();
        assert_eq!(courses.len(), WAYS.len());
        assert_eq!(courses[0].attempts, expected, "{}, stock Envoy", case.name);
        assert!(courses.iter().all(|course| course.status == courses[0].status), "{}: {courses:?}", case.name);
        table.add(*case, courses);
    }
    stand.end().await;
    println!("{table}");
    assert_eq!(table.differences(), Vec::<String>::new());
}
