//! An id is the producer's.
use inbox_runtime::MessageId;

pub fn made() -> [MessageId; 3] {
    [MessageId::new(), MessageId::default(), MessageId::random()]
}

fn main() {}
