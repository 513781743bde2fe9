//! The messages of `proto/orders.proto`, as prost would generate them.

/// An order to be placed.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PlaceRequest {
    /// The customer that orders.
    #[prost(uint64, tag = "1")]
    pub customer: u64,
    /// How long the work takes.
    #[prost(uint32, tag = "2")]
    pub milliseconds: u32,
}

/// An order that was placed.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PlaceReply {
    /// The locks under which it ran.
    #[prost(string, repeated, tag = "1")]
    pub locks: Vec<String>,
}
