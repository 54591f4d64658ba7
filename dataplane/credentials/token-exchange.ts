import type { CredentialBlock } from '../config/credential.ts'
import type { Strategy, Subject } from './credential.ts'
import { bearerCredential, TokenEndpoint } from './token-endpoint.ts'
import { dependingOn, holderOf, type StrategyParts } from './upstream-tokens.ts'

const GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange'
const TYPE = 'urn:ietf:params:oauth:token-type:'
const ACCESS_TOKEN = `${TYPE}access_token`
/** The token types that may be sent as bearer tokens; refresh and ID tokens may not (RFC 8693 section 3). */
const BEARERS: ReadonlySet<unknown> = new Set([ACCESS_TOKEN, `${TYPE}jwt`])

/**
 * Exchanges a token of the caller for one that is meant for the backend (RFC 8693): the caller's verified token or,
 * with `subjectProviderName`, that provider's access token.
 */
export function tokenExchange(
  config: CredentialBlock<'tokenExchange'>,
  { inFolder, upstreamTokens }: StrategyParts,
): Strategy {
  const { audience, scopes, subjectProviderName, subjectTokenType = 'access_token' } = config
  const { headerName = 'authorization' } = config
  const endpoint = new TokenEndpoint({
    ...config,
    clientSecretFile: inFolder(config.clientSecretFile),
    caBundleFile: inFolder(config.caBundleFile),
  })
  const scope = scopes?.join(' ') || undefined
  const ofExchange = {
    grant_type: GRANT,
    requested_token_type: ACCESS_TOKEN,
    subject_token_type: subjectTokenType.includes(':') ? subjectTokenType : TYPE + subjectTokenType,
    audience,
    scope,
  }

  async function subjectToken(subject: Subject): Promise<string> {
    if (subjectProviderName === undefined) return subject.token
    const stored = await upstreamTokens.accessToken(holderOf(subject), subjectProviderName)
    return stored.token
  }

  return {
    key: JSON.stringify(['tokenExchange', config]),
    ...dependingOn(upstreamTokens, subjectProviderName, 'accessToken'),
    async obtain(subject) {
      const issued = await endpoint.request({ ...ofExchange, subject_token: await subjectToken(subject) })
      if (!BEARERS.has(issued.issuedTokenType)) throw endpoint.unusable('gave a token of another type, or of none')
      return bearerCredential(headerName, issued, endpoint)
    },
    obtainOwn: endpoint.ownCredential(headerName, { audience, scope }),
    close: () => endpoint.close(),
  }
}
