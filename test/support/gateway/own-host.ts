/**
 * A loopback address that no other process of the tests listens on: what counts its ports up from a fixed one, as
 * `portico run` does, would meet others on 127.0.0.1.
 */
export const ownHost = `127.${1 + (process.pid % 200)}.${Math.floor(process.pid / 200) % 250}.1`
