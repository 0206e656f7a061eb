//! Whether a bucket keeps the two promises that everything rests on. Some servers that speak S3's protocol take conditions and
//! ignore them: two processes would both win, and a commit of one would be written over by the other.

use deltalake::ObjectStoreError;

use super::place::{ObjectPlace, Place};
use crate::lake::LakeError;

/// Writes an object below a place of each bucket among these, under conditions that hold and that do not, and removes it. Blocks.
///
/// # Errors
/// [`LakeError::StorePromise`] when a condition is ignored; what the store says when it cannot be written.
pub(crate) fn expect_promises<'a>(places: impl IntoIterator<Item = &'a Place>) -> Result<(), LakeError> {
    let mut seen: Vec<&ObjectPlace> = Vec::new();
    for place in places {
        let Some(object) = place.as_object() else { continue };
        if seen.iter().any(|before| before.bucket == object.bucket) {
            continue;
        }
        seen.push(object);
        // Readers of Delta pass over names that begin so.
        let probe = place.join(&format!("_sluice-probe-{}", uuid::Uuid::new_v4().simple()));
        if let Some(probe) = probe.as_object() {
            let proved = prove(probe, place);
            let removed = probe.remove();
            proved?;
            removed.map_err(|error| LakeError::store("remove", probe, error))?;
        }
    }
    Ok(())
}

fn prove(probe: &ObjectPlace, place: &Place) -> Result<(), LakeError> {
    let failed = |error| match error {
        ObjectStoreError::NotFound { .. } => LakeError::NoBucket {
            place: place.to_string(),
            source: Box::new(error),
        },
        error => LakeError::store("write", probe, error),
    };
    let broken = |promise| LakeError::StorePromise {
        place: place.to_string(),
        promise,
    };
    let read = || probe.read().map_err(failed);
    let holds = |content: &[u8]| Ok::<_, LakeError>(read()?.is_some_and(|(there, _)| there == content));
    // Who is told "no" may have written it: the answer before can be lost.
    if !probe.create(b"1").map_err(failed)? && !holds(b"1")? {
        return Err(broken("refused an object under a name that no other has"));
    }
    if probe.create(b"2").map_err(failed)? || !holds(b"1")? {
        return Err(broken(
            "wrote over an object that was to be written only where there is none",
        ));
    }
    let Some((_, first)) = read()? else {
        return Err(broken("lost an object that it had taken"));
    };
    if !probe.swap(Some(&first), b"3").map_err(failed)? && !holds(b"3")? {
        return Err(broken("refused to replace an object that was as it had been read"));
    }
    if probe.swap(Some(&first), b"4").map_err(failed)? || !holds(b"3")? {
        return Err(broken("replaced an object that was no longer as it had been read"));
    }
    Ok(())
}
