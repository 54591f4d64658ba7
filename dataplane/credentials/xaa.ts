import { decodeJwt, decodeProtectedHeader } from 'jose'
import type { CredentialBlock } from '../config/credential.ts'
import type { Strategy, Subject } from './credential.ts'
import { bearerCredential, TokenEndpoint } from './token-endpoint.ts'
import { dependingOn, holderOf, type StrategyParts } from './upstream-tokens.ts'

const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const ID_TOKEN = 'urn:ietf:params:oauth:token-type:id_token'
const ID_JAG = 'urn:ietf:params:oauth:token-type:id-jag'
/** The token type of a token that is not an access token (RFC 8693 section 2.2.1). */
const NOT_APPLICABLE = 'n_a'

/**
 * Implements cross-app access (Identity Assertion JWT Authorization Grant): the identity provider gives an assertion
 * for the user's ID token, and the target an access token for the assertion (RFC 7523). The ID token is from the login
 * at `subjectProviderName`, or the caller's own token.
 */
export function xaa(config: CredentialBlock<'xaa'>, { inFolder, upstreamTokens }: StrategyParts): Strategy {
  const { scopes, subjectProviderName, targetAudience, targetResource } = config
  const provider = new TokenEndpoint({
    tokenUrl: config.idpTokenUrl,
    clientId: config.idpClientId,
    clientSecretFile: inFolder(config.idpClientSecretFile),
    name: 'the identity provider’s token endpoint',
  })
  const target = new TokenEndpoint({
    tokenUrl: config.targetTokenUrl,
    clientId: config.targetClientId,
    clientSecretFile: inFolder(config.targetClientSecretFile),
    name: 'the target’s token endpoint',
  })
  const scope = scopes?.join(' ') || undefined

  const idToken = (subject: Subject) =>
    subjectProviderName === undefined ? subject.token : upstreamTokens.idToken(holderOf(subject), subjectProviderName)

  async function assertionFor(subject: Subject): Promise<string> {
    const issued = await provider.request({
      grant_type: EXCHANGE,
      requested_token_type: ID_JAG,
      subject_token: await idToken(subject),
      subject_token_type: config.subjectTokenType ?? ID_TOKEN,
      audience: targetAudience,
      resource: targetResource,
      scope,
    })
    const isAssertion = issued.issuedTokenType === ID_JAG && issued.tokenType.toLowerCase() === NOT_APPLICABLE
    if (!isAssertion) throw provider.unusable('gave a token of another type, or of none')
    const { aud, resource } = readClaims(issued.token) ?? {}
    // The target could use an assertion elsewhere if it were valid there, too.
    if (!isAlone(aud, targetAudience)) throw provider.unusable('gave an assertion that is not for the target alone')
    if (targetResource !== undefined && !isAlone(resource, targetResource))
      throw provider.unusable('gave an assertion for another resource')
    return issued.token
  }

  return {
    key: JSON.stringify(['xaa', config]),
    ...dependingOn(upstreamTokens, subjectProviderName, 'idToken'),
    async obtain(subject) {
      const assertion = await assertionFor(subject)
      return bearerCredential('authorization', await target.request({ grant_type: JWT_BEARER, assertion }), target)
    },
    obtainOwn: target.ownCredential('authorization', { resource: targetResource, scope }),
    close: async () => {
      await Promise.all([provider.close(), target.close()])
    },
  }
}

function readClaims(assertion: string): Readonly<Record<string, unknown>> | undefined {
  try {
    decodeProtectedHeader(assertion)
    return decodeJwt(assertion)
  } catch {
    return undefined
  }
}

const isAlone = (claim: unknown, value: string): boolean =>
  claim === value || (Array.isArray(claim) && claim.length === 1 && claim[0] === value)
