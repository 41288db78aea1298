//! The group `storage.k8s.io`.

pub mod csi_driver;
pub mod csi_node;
pub mod csi_storage_capacity;
mod parameters;
pub mod storage_class;
mod topology;
pub mod volume_attachment;
pub mod volume_attributes_class;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;

use super::rules;

/// Maximum length of the name of a driver, as in the CSI specification.
const DRIVER_NAME_MAX_LENGTH: usize = 63;

/// Validates the name of a CSI driver, in upper or lower case.
pub(crate) fn driver_name(path: &Path<'_>, driver: &str, errors: &mut ErrorList) {
    if !rules::required(path, driver, errors) {
        return;
    }
    if driver.len() > DRIVER_NAME_MAX_LENGTH {
        errors.push(FieldError::too_long(path, DRIVER_NAME_MAX_LENGTH));
    }
    rules::each_message(path, driver, name::dns1123_subdomain(&driver.to_lowercase()), errors);
}
