import { Agent, buildConnector } from 'undici'
import { boundedConnector } from './bound-heads.ts'

/** Creates a dispatcher for any address whose answers may come from somebody else than us. `ca`: certificates in PEM. */
export function createBoundedAgent(tls: { readonly ca?: string } = {}): Agent {
  return new Agent({ connect: boundedConnector(buildConnector({ ...tls, allowH2: false })) })
}

/** The dispatcher for requests without TLS settings of their own. */
export const boundedAgent = createBoundedAgent()
