import type { OutsideToken } from '../../provider/trusted-issuers.ts'

type Claims = OutsideToken['claims']

/** `typ` of an identity assertion for one client (draft-ietf-oauth-identity-assertion-authz-grant, "ID-JAG"), in lower case. */
const ID_JAG_TYPES: ReadonlySet<unknown> = new Set(['oauth-id-jag+jwt', 'application/oauth-id-jag+jwt'])
/** Bytes of a `jti`: it is digested before it is kept, so this bounds what is hashed. */
const LONGEST_JTI = 256
/** Seconds from `iat` to `exp`: identity providers give about 300. */
const LONGEST_LIFE_S = 10 * 60

/** Tells whether an assertion is an ID-JAG, by the `typ` of its header. */
export const isIdJag = (typ: string | undefined): boolean => ID_JAG_TYPES.has(typ)

/**
 * Gives what of an ID-JAG is not as the draft and enterprise-managed authorization (MCP ext-auth 7.4) require, for the
 * log, or undefined. `issuer` is the name of this authorization server; no other audience counts.
 */
export function faultOfIdJag(claims: Claims, issuer: string): string | undefined {
  const { aud, jti, iat, exp } = claims
  if (aud !== issuer && !(Array.isArray(aud) && aud.length === 1 && aud[0] === issuer)) return 'audience'
  if (typeof jti !== 'string' || jti === '' || Buffer.byteLength(jti) > LONGEST_JTI) return 'jti'
  if (typeof iat !== 'number' || exp - iat > LONGEST_LIFE_S) return 'lifetime'
  // Nobody here is named by a tenant: a subject may be another person in each.
  if (isThere(claims['tenant']) || isThere(claims['aud_tenant'])) return 'tenant'
  return undefined
}

/** Gives the name of a claim that narrows an assertion in a way that is not enforced here, so that it is refused; or undefined. */
export function unenforcedRestriction(claims: Claims): string | undefined {
  if (isThere(claims['authorization_details'])) return 'authorization_details'
  const subjectId = claims['sub_id']
  return isThere(subjectId) && !namesSubject(subjectId, claims) ? 'sub_id' : undefined
}

/** Compares a subject identifier (RFC 9493 section 3.2) with `iss` and `sub`. Formats that say neither never agree. */
function namesSubject(subjectId: unknown, { iss, sub }: Claims): boolean {
  if (typeof subjectId !== 'object' || subjectId === null) return false
  const { format, iss: idIssuer, sub: idSubject, id } = subjectId as Record<string, unknown>
  if (format === 'iss_sub') return idIssuer === iss && idSubject === sub
  return format === 'opaque' && id === sub
}

/** A null member is as an absent one. */
const isThere = (claim: unknown): boolean => claim !== undefined && claim !== null
