//! Frames, requests and errors.

use holdfast_host::host::request::Request;
use holdfast_host::net::{frame, message};

use crate::feed::{corpus, feed, times};

#[test]
fn decoding_frames_and_messages_never_panics() {
    feed("frame", times(5_000), |bytes| {
        let mut stream = bytes;
        while let Ok(Some(_)) = message::receive(&mut stream, frame::MAX_PAYLOAD) {}
        let mut stream = bytes;
        while let Ok(Some(_)) = frame::read(&mut stream, frame::MAX_GREETING) {}
    });
}

#[test]
fn decoding_requests_and_errors_never_panics() {
    let example = std::fs::read(corpus("request").join("example")).expect("an input");
    Request::parse(&example).expect("what is mutated is a request");
    feed("request", times(5_000), |bytes| {
        if let Ok(request) = Request::parse(bytes) {
            let _ = (request.settings.database_options(), request.query_epoch());
        }
    });
    feed("error", times(5_000), |bytes| {
        drop(message::decode_error(bytes))
    });
}
