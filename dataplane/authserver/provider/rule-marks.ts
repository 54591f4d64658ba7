import { hash } from 'node:crypto'
import type { AuthServerConfig, UpstreamProviderConfig } from '../../config/auth-server.ts'
import { delegateClientsIn, type IssuerPolicies, issuerPolicies } from '../../config/authserver/inbound-grants.ts'
import { findLoginUrl, findPrimaries } from '../../config/authserver/provider.ts'

/** The claim with the marks of the rules, issuers and clients in the configuration that a token depends on. */
export const MARKS_CLAIM = 'tiss'

/** The claim with the mark of the provider that has identified the user of a login. */
export const IDENTIFIED_CLAIM = 'tidp'

const MARK_LENGTH = 22

/** Returns the mark of a part of the configuration. It depends on nothing but that part. */
const markFor = (...what: readonly unknown[]): string =>
  hash('sha256', JSON.stringify(what), 'base64url').slice(0, MARK_LENGTH)

/** The fields that identify a trusted issuer: its name and the source of its keys. */
type IssuerSource = Pick<IssuerPolicies['issuer'], 'issuerUrl' | 'jwksUrl' | 'keySource'>

const pickSource = ({ issuerUrl, jwksUrl = '', keySource = 'discovery' }: IssuerSource) => [
  issuerUrl,
  jwksUrl,
  keySource,
]

/** A rule, or a binding of a subject, which is a rule with a subject only. */
interface Rule {
  readonly name?: string
  readonly subject?: string
  readonly matcher?: string
  readonly allowedResources: readonly string[]
  readonly scopes?: readonly string[]
}

export const ruleMark = (
  issuer: IssuerSource,
  { name = '', subject = '', matcher = '', allowedResources, scopes }: Rule,
): string => {
  const what = [name, subject, matcher, allowedResources.toSorted(), scopes?.toSorted() ?? null]
  return markFor('rule', pickSource(issuer), what)
}

export const exchangeMark = (issuer: IssuerSource): string => markFor('exchange', pickSource(issuer))

export const clientMark = (clientId: string): string => markFor('client', clientId)

/** Returns the mark of a provider that identifies users: its name, and where they log in. */
const providerMark = (provider: UpstreamProviderConfig): string =>
  markFor('provider', provider.name, findLoginUrl(provider).href.replace(/\/$/, ''))

/** Returns the mark of a provider that identifies users, by its name; undefined if there is no such provider. */
export type MarkOfProvider = (name: string) => string | undefined

export function createMarkOfProvider(config: AuthServerConfig): MarkOfProvider {
  const marks = new Map(findPrimaries(config).map((provider) => [provider.name, providerMark(provider)]))
  return (name) => marks.get(name)
}

const originOf = (url: string | undefined): string | undefined =>
  url === undefined ? undefined : URL.parse(url)?.origin

/**
 * Creates the function that returns the mark of the party whose tokens or keys are stored under a provider's name: where
 * users log in, and where refresh tokens are sent; for keys the server where users get them. Undefined if there is no
 * such provider, or if a provider of keys does not name that server.
 */
export function createMarkOfTokens({ upstreamProviders }: AuthServerConfig): MarkOfProvider {
  const marks = new Map(upstreamProviders.map((provider) => [provider.name, markOfTokens(provider)]))
  return (name) => marks.get(name)
}

function markOfTokens(provider: UpstreamProviderConfig): string | undefined {
  const { name, oauth2Config, keyConfig } = provider
  if (keyConfig === undefined) return markFor('tokens', providerMark(provider), originOf(oauth2Config?.tokenEndpoint))
  const home = originOf(keyConfig.helpUrl)
  return home === undefined ? undefined : markFor('key', name, home)
}

/**
 * Creates the function that tells whether a token depends on a part that the configuration no longer has. A token
 * without a claim depends on none of its parts.
 */
export function createMarkCheck(config: AuthServerConfig) {
  const providers = new Set<unknown>(findPrimaries(config).map(providerMark))
  const configured = new Set(delegateClientsIn(config).map(({ clientId }) => clientMark(clientId)))
  for (const { issuer, tokenExchange, jwtBearer } of issuerPolicies(config)) {
    if (tokenExchange?.allowedDelegateClients !== undefined) configured.add(exchangeMark(issuer))
    for (const rule of [...(jwtBearer?.subjectBindings ?? []), ...(jwtBearer?.subjectRules ?? [])])
      configured.add(ruleMark(issuer, rule))
  }
  return function hasRemovedMark(claims: Readonly<Record<string, unknown>>): boolean {
    const { [MARKS_CLAIM]: marks, [IDENTIFIED_CLAIM]: provider } = claims
    if (provider !== undefined && !providers.has(provider)) return true
    if (marks === undefined) return false
    return !Array.isArray(marks) || !marks.every((mark) => configured.has(mark as string))
  }
}
