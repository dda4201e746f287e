//! Protocols that are spoken here: none of them is a store.

#[cfg(any(feature = "http", feature = "memcached", feature = "redis"))]
pub mod buffer;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "http")]
pub mod http1;
#[cfg(feature = "http")]
pub mod http2;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "http", feature = "memcached", feature = "postgres", feature = "redis"))]
pub mod stream;
