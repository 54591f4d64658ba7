import { Agent, buildConnector } from 'undici'
import { boundHeads } from './bound-heads.ts'

/** Creates a dispatcher for any address whose answers may come from somebody else than us. `ca`: certificates in PEM. */
export function createBoundedAgent(tls: { readonly ca?: string } = {}): Agent {
  const connector = buildConnector({ ...tls, allowH2: false })
  return new Agent({
    connect: (target, callback) =>
      connector(target, (...connected) => {
        callback(...connected)
        if (connected[0] === null) boundHeads(connected[1])
      }),
  })
}

/** The dispatcher for requests without TLS settings of their own. */
export const boundedAgent = createBoundedAgent()
