//! windlass-agent
