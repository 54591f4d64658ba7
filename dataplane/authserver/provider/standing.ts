import { hash } from 'node:crypto'
import type { AuthServerConfig } from '../../config/auth-server.ts'
import { delegateClientsIn, type IssuerPolicies, issuerPolicies } from '../../config/authserver/inbound-grants.ts'

/** The claim with the marks of the rules, issuers and clients in the configuration that a token depends on. */
export const STANDING_CLAIM = 'tiss'

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

/** Returns the mark of a rule of an issuer. */
export const ruleMark = (
  issuer: IssuerSource,
  { name = '', subject = '', matcher = '', allowedResources, scopes }: Rule,
): string => {
  const what = [name, subject, matcher, allowedResources.toSorted(), scopes?.toSorted() ?? null]
  return markFor('rule', pickSource(issuer), what)
}

/** Returns the mark of an issuer whose tokens are exchanged. */
export const exchangeMark = (issuer: IssuerSource): string => markFor('exchange', pickSource(issuer))

/** Returns the mark of a configured client. */
export const clientMark = (clientId: string): string => markFor('client', clientId)

/** Tells whether a token depends on a rule, issuer or client that the configuration no longer has. */
export type HasFallen = (claims: Readonly<Record<string, unknown>>) => boolean

/**
 * Creates the function for one configuration. A token without the claim was issued at a login and does not end this
 * way.
 */
export function createHasFallen(config: AuthServerConfig): HasFallen {
  const standing = new Set(delegateClientsIn(config).map(({ clientId }) => clientMark(clientId)))
  for (const { issuer, tokenExchange, jwtBearer } of issuerPolicies(config)) {
    if (tokenExchange?.allowedDelegateClients !== undefined) standing.add(exchangeMark(issuer))
    for (const rule of [...(jwtBearer?.subjectBindings ?? []), ...(jwtBearer?.subjectRules ?? [])])
      standing.add(ruleMark(issuer, rule))
  }
  return function hasFallen({ [STANDING_CLAIM]: marks }) {
    if (marks === undefined) return false
    return !Array.isArray(marks) || !marks.every((mark) => standing.has(mark as string))
  }
}
