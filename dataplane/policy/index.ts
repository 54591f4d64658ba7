/** Authorization by Cedar policies: compiled once, asked for each call. */

export { policyProblems, policyProblemsStepwise } from './compile.ts'
export {
  type CallNeed,
  type Explanation,
  isCaller,
  type LoginNeed,
  Policies,
  type Question,
  readQuestion,
} from './policies.ts'
export type { Claims, Principal } from './principal.ts'
export type { PolicySource, Subject } from './source.ts'
export type { ReadArguments } from './values.ts'
