//! A proxy that takes its time, precisely: a timer of tokio rounds up to the millisecond.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// What clients sent, counted. It lives until the process ends.
pub(crate) struct Delay {
    pub(crate) at: SocketAddr,
    requests: Arc<AtomicU64>,
}

impl Delay {
    /// Adds this much to each round trip, half of it each way.
    pub(crate) fn to(server: (String, u16), round_trip: Duration) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (at, requests) = (listener.local_addr()?, Arc::<AtomicU64>::default());
        let counted = Arc::clone(&requests);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&server) else { return };
                if let Err(error) = join(&client, &server, round_trip / 2, &counted) {
                    eprintln!("the proxy could not join a connection: {error}");
                }
            }
        });
        Ok(Self { at, requests })
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

fn join(client: &TcpStream, server: &TcpStream, way: Duration, requests: &Arc<AtomicU64>) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from, to, requests) = (client.try_clone()?, server.try_clone()?, Arc::clone(requests));
    thread::spawn(move || pump(from, to, way, Some(&requests)));
    let (from, to) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || pump(from, to, way, None));
    Ok(())
}

fn pump(mut from: TcpStream, mut to: TcpStream, way: Duration, requests: Option<&AtomicU64>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if let Some(requests) = requests {
            requests.fetch_add(1, Ordering::SeqCst);
        }
        if !way.is_zero() {
            thread::sleep(way);
        }
        if buffer.get(..read).is_none_or(|bytes| to.write_all(bytes).is_err()) {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
