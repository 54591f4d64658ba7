/** The address to listen on; without a host, every address of the machine. */
export interface Address {
  readonly host: string | undefined
  readonly port: number
}

/**
 * Reads `HOST:PORT`: `127.0.0.1:8080`, `[::1]:8080`, `localhost:0` (any port), `:8080` (every address). Throws a
 * TypeError.
 */
export function parseAddress(text: string): Address {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]/\s]*)):([0-9]{1,5})$/.exec(text)
  const port = Number(match?.[3])
  if (match === null || port > 65_535)
    throw new TypeError(`not an address: ${JSON.stringify(text)} (write HOST:PORT, such as 127.0.0.1:8080 or :8080)`)
  return { host: match[1] || match[2] || undefined, port }
}
