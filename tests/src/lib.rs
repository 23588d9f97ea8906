//! Tests that span folders.
