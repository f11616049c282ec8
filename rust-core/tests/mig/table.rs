//! The profile table and its geometry.

use mortise_core::mig::{Certainty, GPU_MODELS, Geometry, GpuModel, LayoutId, ProfileId};

#[test]
fn every_row_is_consistent() {
    for model in GPU_MODELS {
        for profile in model.profiles {
            let name = format!("{} {}", model.name, profile.name);
            assert!(profile.name.starts_with(&format!("{}g.", profile.compute_slices)), "{name}");
            assert!(profile.starts.is_sorted() && !profile.starts.is_empty(), "{name}");
            let last = profile.starts[profile.starts.len() - 1];
            assert!(last + profile.memory_slices <= model.memory_slices, "{name}");
            assert_eq!(profile.media, profile.name.ends_with("+me"), "{name}");
        }
        let whole = model.profiles[model.profiles.len() - 1];
        assert_eq!(
            (whole.compute_slices, whole.memory_slices),
            (model.compute_slices, model.memory_slices)
        );
    }
}

#[test]
fn as_many_instances_exist_as_the_guide_says() {
    for model in GPU_MODELS {
        let geometry = Geometry::new(model);
        for (index, profile) in model.profiles.iter().enumerate() {
            let room = geometry.room(LayoutId::EMPTY, ProfileId(index as u8));
            assert_eq!(room, profile.max_instances, "{} {}", model.name, profile.name);
        }
    }
}

#[test]
fn what_is_inferred_is_marked() {
    let certainty = |name| GpuModel::named(name).expect("known").certainty;
    for confirmed in ["a30-24gb", "a100-40gb", "A100-80GB", "h100-80gb", "h100-94gb"] {
        assert_eq!(certainty(confirmed), Certainty::Confirmed);
    }
    for inferred in ["h100-96gb", "h200-141gb", "b200-180gb"] {
        assert_eq!(certainty(inferred), Certainty::Inferred);
    }
}

#[test]
fn a_device_id_names_one_model() {
    let mut ids: Vec<u32> =
        GPU_MODELS.iter().flat_map(|model| model.pci_ids.iter().copied()).collect();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]));
    assert_eq!(GpuModel::with_pci_id(0x2330_10de).map(|model| model.name), Some("h100-80gb"));
    assert_eq!(GpuModel::with_pci_id(0), None);
}

/// Adding and removing are inverse, and every layout obeys the rule, which is written out here once more.
#[test]
fn layouts_are_all_that_the_rules_allow() {
    for model in GPU_MODELS {
        let geometry = Geometry::new(model);
        let bits = geometry.placements().len();
        for layout in geometry.layouts() {
            for bit in 0..bits as u8 {
                let placement = mortise_core::mig::PlacementId(bit);
                let held = geometry.instances(layout).any(|id| id == placement);
                assert!(!held || geometry.add(layout, placement).is_none());
                let mut rows: Vec<_> =
                    geometry.instances(layout).map(|id| geometry.placement(id)).collect();
                rows.push(geometry.placement(placement));
                let legal = !held && obeys(model, &rows);
                assert_eq!(geometry.add(layout, placement).is_some(), legal, "{rows:?}");
                if let Some(after) = geometry.add(layout, placement) {
                    assert_eq!(geometry.remove(after, placement), Some(layout));
                }
            }
        }
    }
}

fn obeys(model: &GpuModel, rows: &[mortise_core::mig::Placement]) -> bool {
    let facts = |row: &mortise_core::mig::Placement| model.profiles[row.profile.index()];
    let mut slices = [0u8; 8];
    for row in rows {
        for slice in row.start..row.start + facts(row).memory_slices {
            slices[usize::from(slice)] += 1;
        }
    }
    let compute: u8 = rows.iter().map(|row| facts(row).compute_slices).sum();
    let media = rows.iter().filter(|row| facts(row).media).count();
    slices.iter().all(|&users| users <= 1) && compute <= model.compute_slices && media <= 1
}
