/** Somebody who acted for the subject. */
export interface Actor {
  readonly iss: string
  readonly sub: string
}

/** The claim `act` (RFC 8693 section 4.1): who acts now, and within it who has acted before. */
export interface Act extends Actor {
  readonly act?: Act
}

/** Tokens grow with each exchange; who acted longer ago is left out. */
const LONGEST_CHAIN = 10
const LONGEST_NAME = 1024

/** The claim for these actors, the one who acts now first. */
export function actOf(actors: readonly Actor[]): Act | undefined {
  return actors
    .slice(0, LONGEST_CHAIN)
    .reduceRight<Act | undefined>((act, { iss, sub }) => ({ iss, sub, ...(act && { act }) }), undefined)
}

/** The actors of a verified token, the last one first. What is no actor ends the list. `issuer`: of those who name none. */
export function actorsOf(claim: unknown, issuer: string): readonly Actor[] {
  const actors: Actor[] = []
  let at = claim
  while (typeof at === 'object' && at !== null && actors.length < LONGEST_CHAIN) {
    const { iss = issuer, sub, act } = at as Readonly<Record<string, unknown>>
    if (!isName(iss) || !isName(sub)) break
    actors.push({ iss, sub })
    at = act
  }
  return actors
}

const isName = (value: unknown): value is string =>
  typeof value === 'string' && value !== '' && value.length <= LONGEST_NAME
