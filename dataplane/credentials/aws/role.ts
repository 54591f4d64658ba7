import { ROLE_CLAIM } from '../../../crds/shared/gateway/defaults.ts'
import { type ClaimMatcher, compileClaimMatcher } from '../../config/check/claim-matcher.ts'
import type { AwsStsConfig } from '../../config/credential.ts'
import { CredentialError } from '../credential.ts'

/** As what somebody is known to AWS. */
export interface AssumedRole {
  readonly roleArn: string
  readonly sessionName: string
}

interface Mapping {
  readonly roleArn: string
  readonly matches: ClaimMatcher
}

const LONGEST_NAME = 64
const SHORTEST_NAME = 2

/** Makes the function that says which role is assumed for whom, by their verified claims; it throws a CredentialError where it is none. */
export function roleChooser(config: AwsStsConfig): (claims: Readonly<Record<string, unknown>>) => AssumedRole {
  const { roleClaim = ROLE_CLAIM, sessionNameClaim = 'sub', fallbackRoleArn } = config
  const mappings = orderedMappings(config.roleMappings ?? [], roleClaim)
  return function chooseRole(claims) {
    const roleArn = mappings.find(({ matches }) => matches(claims))?.roleArn ?? fallbackRoleArn
    if (roleArn === undefined) throw refused('no role is mapped to the caller', 'no AWS role is meant for you')
    return { roleArn, sessionName: sessionName(own(claims, sessionNameClaim)) }
  }
}

/** The lowest priority number first; those without one last; equal ones as they stand. */
const orderedMappings = (mappings: NonNullable<AwsStsConfig['roleMappings']>, roleClaim: string): readonly Mapping[] =>
  mappings
    .toSorted((a, b) => (a.priority ?? Number.MAX_SAFE_INTEGER) - (b.priority ?? Number.MAX_SAFE_INTEGER))
    .map(({ roleArn, claim, matcher }) => ({
      roleArn,
      matches: matcher === undefined ? (claims) => holds(own(claims, roleClaim), claim) : compileClaimMatcher(matcher),
    }))

const own = (claims: Readonly<Record<string, unknown>>, name: string) =>
  Object.hasOwn(claims, name) ? claims[name] : undefined

/** Whether a claim is this value, or a list that has it. */
const holds = (claim: unknown, value: string | undefined): boolean =>
  value !== undefined && (claim === value || (Array.isArray(claim) && claim.includes(value)))

/** A name of AWS's characters (2 to 64 of `[\w+=,.@-]`); others become `_`. */
function sessionName(claim: unknown): string {
  if (typeof claim !== 'string' || claim === '')
    throw refused('the claim that names the session is missing', 'your token lacks the claim that names you to AWS')
  const name = claim.slice(0, LONGEST_NAME).replace(/[^\w+=,.@-]/g, '_')
  return name.padEnd(SHORTEST_NAME, '_')
}

const refused = (message: string, text: string) => new CredentialError(message, { text, isPassing: false })
