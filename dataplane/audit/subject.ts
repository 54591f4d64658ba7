import { isObject } from '../../crds/shared/json.ts'
import type { Caller } from '../identity/caller.ts'

/** Longest text of a caller that is written, in characters. */
export const LONGEST_TEXT = 256

export const cut = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value.slice(0, LONGEST_TEXT) : undefined

/** Who acted, as an event tells it. */
export interface Subject {
  readonly issuer?: string | undefined
  readonly id?: string | undefined
  readonly name?: string | undefined
  readonly client?: string | undefined
  /** Who acts for them, the last one first (RFC 8693 section 4.1). */
  readonly delegation?: readonly { readonly issuer?: string | undefined; readonly id?: string | undefined }[]
}

/** Who a caller is. Of the claims nothing is told but names; `depth` links of a chain of delegations at most. */
export function subjectOf(caller: Caller, depth: number): Subject | undefined {
  if (caller.kind === 'anonymous') return undefined
  const { claims, issuer, subject } = caller
  const name = claims['name'] ?? claims['preferred_username'] ?? claims['email']
  const client = claims['client_id'] ?? claims['azp']
  const delegation = chainOf(claims['act'], depth)
  return {
    issuer: cut(issuer),
    id: cut(subject),
    name: cut(name),
    client: cut(client),
    ...(delegation.length === 0 ? {} : { delegation }),
  }
}

function chainOf(act: unknown, depth: number) {
  const chain: { issuer: string | undefined; id: string | undefined }[] = []
  let actor = act
  while (isObject(actor) && chain.length < depth) {
    chain.push({ issuer: cut(actor['iss']), id: cut(actor['sub']) })
    actor = actor['act']
  }
  return chain
}
