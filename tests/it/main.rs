//! sluice end to end: the real binary against the stand-in server, over real sockets. One module per kind of claim.

mod harness;

mod components;
mod crash;
mod demo;
mod errors;
mod fanout;
mod follow;
mod leaks;
mod types;
