import { policyProblems, policyProblemsStepwise } from '../../policy/index.ts'
import type { AuthzConfig } from '../gateway-authz.ts'
import type { Finding } from '../load.ts'
import { keepFound, longCheck } from './long-check.ts'

const NAME = 'policies'
const problemsOf = longCheck(NAME, policyProblems, (message) => [{ pointer: '/policies', message }])

/** What is wrong with policies and entities, in the words of their parser. */
export const authzFindings = (authz: AuthzConfig, at: string): readonly Finding[] =>
  problemsOf(authz).map(({ pointer, message }) => ({ pointer: `${at}${pointer}`, message }))

/** Finds out what is wrong while others are served, for `authzFindings` to know it. */
export async function checkAuthzStepwise(authz: AuthzConfig): Promise<void> {
  keepFound(NAME, authz, await policyProblemsStepwise(authz))
}
