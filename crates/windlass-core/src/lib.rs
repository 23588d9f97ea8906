//! windlass-core
