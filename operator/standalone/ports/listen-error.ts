import { createServer } from 'node:net'

/** The code of the error with which listening on the port fails now, such as EADDRINUSE; undefined where it does not. */
export function listenError(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(undefined)))
  })
}

/** Whether something could listen on the port now. */
export const isPortFree = async (host: string, port: number): Promise<boolean> =>
  (await listenError(host, port)) === undefined

/** A port that is free now. */
export function freePort(host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen({ host, port: 0 }, () => {
      const address = probe.address()
      probe.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}
