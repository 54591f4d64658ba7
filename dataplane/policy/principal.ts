import { createHash } from 'node:crypto'
import { isObject } from '../../crds/settings/json.ts'
import { CLAIM, type Compiled } from './compile.ts'
import { entityKey } from './expressions.ts'
import type { PolicySource } from './source.ts'
import { type CedarValue, toCedarValue, UnsupportedValue } from './values.ts'

/** A caller as policies see it: only the claims that some policy reads, and only the groups that are named. */
export interface Principal {
  readonly id: string
  readonly groups: readonly string[]
  readonly claims: Readonly<Record<string, CedarValue>>
  /** The digest of all that decisions can depend on: callers with the same digest get the same decisions. */
  readonly digest: string
  /** The reason why nothing can be decided for this caller; undefined if it can. */
  readonly problem: string | undefined
}

export type Claims = Readonly<Record<string, unknown>>

const GROUP_CLAIMS = ['groups', 'roles', 'cognito:groups']
/** The most bytes of claims. A token in a header has fewer, but an introspection response may have as many. */
const MOST_BYTES = 64 * 1024

type ClaimNames = Pick<PolicySource, 'groupClaimName' | 'roleClaimName'>

/** Creates the function that returns a caller's principal. */
export function principals({ claims: read, mentioned, groupEntityType }: Compiled, names: ClaimNames) {
  const wanted = [...read]
  // If no policy names a single client, callers that differ only in their subject get the same decisions.
  const dependsOnId = [...mentioned].some((key) => key.startsWith('Client::'))
  const isNamed = (group: string) => mentioned.has(entityKey(groupEntityType, group))

  return function principalOf(id: string, claims: Claims): Principal {
    const groups = readGroups(claims, names).filter(isNamed)
    const { values, problem: invalid } = readClaims(wanted, claims)
    const isTooLarge = JSON.stringify([groups, values]).length > MOST_BYTES
    const problem = invalid ?? (isTooLarge ? 'the claims that policies read are too large' : undefined)
    const text = JSON.stringify([dependsOnId ? id : '', groups, values, problem])
    return { id, groups, claims: values, digest: createHash('sha256').update(text).digest('base64'), problem }
  }
}

function readClaims(attributes: readonly string[], claims: Claims) {
  const values: Record<string, CedarValue> = {}
  let problem: string | undefined
  for (const attribute of attributes) {
    const claim = attribute.slice(CLAIM.length)
    if (!Object.hasOwn(claims, claim) || (claim === 'email' && isEmailRefuted(claims))) continue
    try {
      const value = toCedarValue(claims[claim])
      if (value !== undefined) values[attribute] = value
    } catch (error) {
      if (!(error instanceof UnsupportedValue)) throw error
      problem ??= `claim ${JSON.stringify(claim)} can’t be evaluated: ${error.message}`
    }
  }
  return { values, problem }
}

/** Tells whether the issuer states that the e-mail address is unverified. */
const isEmailRefuted = ({ email_verified: verified }: Claims): boolean => verified === false || verified === 'false'

/** Returns groups and roles, sorted and unique. A claim that is not an array of texts counts as empty. */
function readGroups(claims: Claims, { groupClaimName, roleClaimName }: ClaimNames): readonly string[] {
  const first = GROUP_CLAIMS.find((name) => Object.hasOwn(claims, name))
  const groups = groupClaimName === undefined ? first && claims[first] : claimAt(claims, groupClaimName)
  const roles = roleClaimName === undefined ? undefined : claimAt(claims, roleClaimName)
  return [...new Set([...readTexts(groups), ...readTexts(roles)])].sort()
}

const readTexts = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((item): item is string => typeof item === 'string') : []

/** Returns the claim of exactly this name, else the one at its dotted path. */
function claimAt(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name]
  let value: unknown = claims
  for (const step of name.split('.')) {
    if (!isObject(value) || !Object.hasOwn(value, step)) return undefined
    value = value[step]
  }
  return value
}
