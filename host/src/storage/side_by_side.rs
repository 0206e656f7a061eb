//! Many places that are asked one after the other take as long as all answers of a store together.

use std::panic::resume_unwind;

use super::Place;

/// Places that are asked at the same time.
const AT_ONCE: usize = 16;

/// Does something that blocks for each item, and gives the results in their order: of places in buckets, sixteen at a time.
pub(crate) fn side_by_side<I: Sync, T: Send>(
    items: &[I],
    place_of: impl Fn(&I) -> &Place,
    work: impl Fn(&I) -> T + Sync,
) -> Vec<T> {
    if !items.iter().any(|item| place_of(item).as_object().is_some()) {
        return items.iter().map(work).collect();
    }
    let share = items.len().div_ceil(AT_ONCE).max(1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = items
            .chunks(share)
            .map(|some| scope.spawn(|| some.iter().map(&work).collect::<Vec<T>>()))
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::storage::Stores;

    #[test]
    fn results_are_in_the_order_of_the_items_wherever_they_are() {
        let stores = Stores::default();
        for prefix in ["s3://bucket", "/folder"] {
            for number in [0, 1, 15, 16, 17, 100] {
                let items: Vec<Place> = (0..number)
                    .map(|i| stores.place(Path::new("/"), &format!("{prefix}/{i}")).unwrap())
                    .collect();
                let names = side_by_side(&items, |item| item, |item| item.name().unwrap().to_owned());
                let wanted: Vec<String> = (0..number).map(|i| i.to_string()).collect();
                assert_eq!(names, wanted);
            }
        }
    }
}
