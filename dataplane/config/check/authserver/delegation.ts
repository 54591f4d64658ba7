import { registeredClaims } from '../../../../crds/settings/auth/auth-server-bounds.ts'
import { parseDuration } from '../../../../crds/settings/duration.ts'
import type { AuthServerConfig, TrustedIssuerConfig } from '../../auth-server.ts'
import type { Finding } from '../../load.ts'
import { compileClaimMatcher } from '../claim-matcher.ts'
import { duplicates } from '../duplicates.ts'
import { issuerFindings } from '../issuer.ts'
import { isLoopback } from '../url.ts'

/** Checks the clients and issuers of token exchange. */
export function delegationFindings(config: AuthServerConfig, at: string): readonly Finding[] {
  const { delegateClients = [], trustedIssuers = [] } = config
  return [
    ...clientFindings(config, `${at}/delegateClients`),
    ...duplicates(delegateClients, ({ clientId }) => clientId, `${at}/delegateClients`, '/clientId'),
    ...duplicates(trustedIssuers, ({ issuerUrl }) => issuerUrl, `${at}/trustedIssuers`, '/issuerUrl'),
    ...trustedIssuers.flatMap((issuer, index) => trustedFindings(issuer, `${at}/trustedIssuers/${index}`, config)),
  ]
}

function clientFindings(config: AuthServerConfig, at: string): readonly Finding[] {
  const { issuer, delegateClients = [], insecureAllowConfidentialOverLoopbackHTTP: loopback } = config
  if (delegateClients.length === 0) return []
  const url = URL.parse(issuer)
  const isSafe = url?.protocol === 'https:' || (url !== null && isLoopback(url) && loopback === true)
  return [
    ...(isSafe ? [] : [{ pointer: at, message: 'needs an https issuer: secrets would travel in the clear' }]),
    ...delegateClients.flatMap(({ clientId }, index) =>
      // The id of a client that publishes a metadata document.
      clientId.includes('://')
        ? [{ pointer: `${at}/${index}/clientId`, message: 'must not be a URL, by which other clients are known' }]
        : [],
    ),
  ]
}

function trustedFindings(issuer: TrustedIssuerConfig, at: string, config: AuthServerConfig): readonly Finding[] {
  const { allowPrivateIPs, jwksUrl, allowedDelegateClients: clients, actorMatcher } = issuer
  const known = new Set(config.delegateClients?.map(({ clientId }) => clientId))
  const names = (clients ?? []).map((name, index) => ({ name, pointer: `${at}/allowedDelegateClients/${index}` }))
  const isAll = clients?.includes('*') === true
  return [
    ...issuerFindings(
      { ...issuer, issuer: issuer.issuerUrl, allowPrivateIP: allowPrivateIPs, allowedBy: 'allowPrivateIPs' },
      at,
      'issuerUrl',
    ),
    ...(issuer.issuerUrl === config.issuer
      ? [{ pointer: `${at}/issuerUrl`, message: 'must be another one than the issuer of this server' }]
      : []),
    ...(allowPrivateIPs && jwksUrl === undefined
      ? [{ pointer: `${at}/allowPrivateIPs`, message: 'needs jwksUrl' }]
      : []),
    ...(isAll && names.length > 1
      ? [{ pointer: `${at}/allowedDelegateClients`, message: '"*" must stand alone' }]
      : []),
    ...names
      .filter(({ name }) => name !== '*' && !known.has(name))
      .map(({ pointer }) => ({ pointer, message: 'must name one of delegateClients' })),
    ...actorFindings(issuer, at, isAll),
    ...matcherFindings(actorMatcher, `${at}/actorMatcher`),
    ...bearerFindings(issuer, `${at}/jwtBearerGrant`),
    ...(clients === undefined && issuer.jwtBearerGrant === undefined
      ? [
          {
            pointer: at,
            message: 'must have allowedDelegateClients or jwtBearerGrant: without them nothing of it is accepted',
          },
        ]
      : []),
  ]
}

function bearerFindings({ jwtBearerGrant: grant }: TrustedIssuerConfig, at: string): readonly Finding[] {
  if (grant === undefined) return []
  return [
    ...ageFindings(parseDuration(grant.maxAssertionAge), `${at}/maxAssertionAge`),
    ...duplicates(grant.subjectBindings, ({ subject }) => subject, `${at}/subjectBindings`, '/subject'),
  ]
}

/** Used assertions are remembered this long. A store that kept them for days would fill up. */
const OLDEST_ASSERTION_MS = 60 * 60_000

function ageFindings(ageMs: number, pointer: string): readonly Finding[] {
  if (ageMs <= 0) return [{ pointer, message: 'must be longer than zero' }]
  return ageMs > OLDEST_ASSERTION_MS ? [{ pointer, message: 'must be at most 1h' }] : []
}

function actorFindings(issuer: TrustedIssuerConfig, at: string, isAll: boolean): readonly Finding[] {
  const { actorClaim, actorMatcher, allowedActors, allowMayAct, expectedAudience, allowedDelegateClients } = issuer
  const isAboutActors = [actorClaim, actorMatcher, allowedActors].some((value) => value !== undefined) || allowMayAct
  return [
    ...(actorClaim !== undefined && registeredClaims.includes(actorClaim)
      ? [{ pointer: `${at}/actorClaim`, message: 'must not be a registered claim' }]
      : []),
    ...(isAboutActors && (expectedAudience === undefined || allowedDelegateClients === undefined)
      ? [{ pointer: at, message: 'rules about actors need expectedAudience and allowedDelegateClients' }]
      : []),
    ...(allowMayAct && isAll
      ? [{ pointer: `${at}/allowMayAct`, message: 'excludes "*" in allowedDelegateClients' }]
      : []),
  ]
}

function matcherFindings(text: string | undefined, pointer: string): readonly Finding[] {
  if (text === undefined) return []
  try {
    compileClaimMatcher(text)
    return []
  } catch (error) {
    return [{ pointer, message: `can’t be used: ${(error as Error).message}` }]
  }
}
