/**
 * A loopback address on which no other process of the tests listens. A program that counts its ports up from a
 * fixed one, as `portico run` does, would collide with others on 127.0.0.1.
 */
export const ownHost = `127.${1 + (process.pid % 200)}.${Math.floor(process.pid / 200) % 250}.1`
