import type { ValueFinding } from '../../crds/settings/json.ts'
import { limits } from '../../crds/settings/limits.ts'
import { atOnce, type Steps, stepwise } from '../../crds/settings/stepwise.ts'
import { EngineFault, engine } from './engine.ts'
import { type DeclaredEntities, readingEntities } from './entities.ts'
import { DEEPEST, entityKey, joinReads } from './expressions.ts'
import { type PolicyText, readingPolicies } from './policy-text.ts'
import { actions, GROUP, listActions, PolicyError, type PolicySource } from './source.ts'

export interface Compiled {
  readonly policies: readonly PolicyText[]
  readonly entities: DeclaredEntities
  /** Names of all claim attributes (`claim_<name>`) that any policy reads. */
  readonly claims: ReadonlySet<string>
  /** Declared entities that a policy names. */
  readonly named: readonly string[]
  /** Entities that a policy or a declared entity names. */
  readonly mentioned: ReadonlySet<string>
  readonly groupEntityType: string
}

export const CLAIM = 'claim_'
/** The most policies, and the most characters of all together. */
const { policies: MOST_POLICIES, policyText: MOST_TEXT } = limits
/** The most characters of a pattern: matching takes pattern times text. */
const LONGEST_PATTERN = 512
const GROUP_TYPE = /^[A-Za-z_][A-Za-z0-9_]*$/
const OWN_TYPES = new Set(['Client', 'Action', 'Tool', 'Prompt', 'Resource', 'MCP', 'Backend'])

/** The compiled sources of a check, until they are in force: a source at its limits takes half a second. */
const checked = new WeakMap<PolicySource, Compiled>()

/** Returns the result of `compile`, and reuses that of an earlier check. */
export function compileOnce(source: PolicySource): Compiled {
  const known = checked.get(source)
  checked.delete(source)
  return known ?? compile(source)
}

/** Compiles policies and entities. Throws a PolicyError with all problems. */
export const compile = (source: PolicySource): Compiled => atOnce(compileInSteps(source))

function* compileInSteps(source: PolicySource): Steps<Compiled> {
  const problems: ValueFinding[] = []
  const entities = yield* collect(problems, readingEntities(source.entitiesJson ?? '[]'))
  const policies = (yield* collect(problems, policiesOf(source.policies))) ?? []
  const { groupEntityType = GROUP } = source
  if (!GROUP_TYPE.test(groupEntityType) || OWN_TYPES.has(groupEntityType))
    problems.push({ pointer: '/groupEntityType', message: 'must be an entity type that has no other meaning here' })
  problems.push(...policies.flatMap((policy) => findProblems(policy, entities?.mentioned ?? new Set())))
  if (problems.length === 0) yield* collect(problems, loadInSteps(policies))
  if (problems.length > 0 || entities === undefined) throw new PolicyError(problems)
  const reads = joinReads(policies.map(({ mentions }) => mentions))
  const inPolicies = new Set(policies.flatMap(({ mentions }) => [...mentions.entities]))
  return {
    policies,
    entities,
    claims: new Set([...reads.principal, ...reads.context].filter((name) => name.startsWith(CLAIM))),
    named: [...inPolicies].filter((key) => entities.get(key) !== undefined),
    mentioned: new Set([...entities.mentioned, ...inPolicies]),
    groupEntityType,
  }
}

function* collect<T>(problems: ValueFinding[], steps: Steps<T>): Steps<T | undefined> {
  try {
    return yield* steps
  } catch (error) {
    if (error instanceof PolicyError) problems.push(...error.problems)
    else if (error instanceof EngineFault)
      problems.push({ pointer: '/policies', message: 'the policy engine can’t take this: it is too deep or too large' })
    else throw error
    return undefined
  }
}

function* policiesOf(texts: readonly string[]): Steps<readonly PolicyText[]> {
  const length = texts.reduce((sum, text) => sum + text.length, 0)
  if (length > MOST_TEXT)
    throw new PolicyError([{ pointer: '/policies', message: `have more than ${MOST_TEXT} characters together` }])
  // Each text holds at least one policy, or is wrong. Listing the problems of so many helps nobody.
  if (texts.length > MOST_POLICIES) throw tooMany()
  const problems: ValueFinding[] = []
  const policies: PolicyText[] = []
  for (const [index, text] of texts.entries()) {
    const read = yield* readingPolicies(text, String(index))
    if (typeof read === 'string') problems.push({ pointer: `/policies/${index}`, message: read })
    else policies.push(...read)
  }
  if (policies.length === 0 && problems.length === 0)
    problems.push({ pointer: '/policies', message: 'must hold at least one policy' })
  if (problems.length > 0) throw new PolicyError(problems)
  if (policies.length > MOST_POLICIES) throw tooMany()
  return policies
}

const tooMany = (): PolicyError =>
  new PolicyError([{ pointer: '/policies', message: `hold more than ${MOST_POLICIES} policies` }])

function findProblems(
  { name, effect, mentions, annotations }: PolicyText,
  declared: ReadonlySet<string>,
): readonly ValueFinding[] {
  // Other engines hold calls for some annotations (`@requireApproval`). Ignoring one would allow more.
  const found = annotations.map(
    (annotation) => `has the annotation @${annotation}, which has no effect here; only @id is supported`,
  )
  if (mentions.usesWholeContext) found.push('uses context as a whole; name its attributes instead')
  if (mentions.depth > DEEPEST) found.push('is nested too deep, or chains too many operators; split it')
  if (mentions.longestPattern > LONGEST_PATTERN) found.push(`has a pattern of more than ${LONGEST_PATTERN} characters`)
  if (effect === 'forbid') found.push(...ineffective(mentions.entities, declared))
  return found.map((message) => ({ pointer: `/policies/${name.split('.')[0]}`, message }))
}

/** Reports a forbid that forbids nothing, since its action is never requested. */
function* ineffective(entities: ReadonlySet<string>, declared: ReadonlySet<string>): Generator<string> {
  const known = new Set(actions.map((action) => entityKey('Action', action)))
  for (const key of entities) {
    if (!key.startsWith('Action::') || known.has(key) || declared.has(key)) continue
    if (listActions.some((action) => key === entityKey('Action', action)))
      yield `forbids ${key}: lists are always answered, filtered by ${actions.join(', ')}; forbid those`
    else yield `forbids ${key}, which is not an action; the actions are ${actions.join(', ')}`
  }
}

/** Returns all problems of a source. It compiles the source, which takes up to a second at its limits. */
export const policyProblems = (source: PolicySource): readonly ValueFinding[] => atOnce(findingProblems(source))

/** Returns the same in steps. It takes longer but lets other requests run. */
export const policyProblemsStepwise = (source: PolicySource): Promise<readonly ValueFinding[]> =>
  stepwise(findingProblems(source))

function* findingProblems(source: PolicySource): Steps<readonly ValueFinding[]> {
  try {
    checked.set(source, yield* compileInSteps(source))
    return []
  } catch (error) {
    if (error instanceof PolicyError) return error.problems
    throw error
  }
}

/** The most characters of policies that the engine gets in one step. */
const AT_ONCE = 16 * 1024

/** Loads policies into the engine as sets. Throws a PolicyError if the engine refuses them. */
function* loadInSteps(policies: readonly PolicyText[]): Steps<void> {
  let batch: PolicyText[] = []
  let size = 0
  for (const policy of policies) {
    batch.push(policy)
    size += policy.text.length
    if (size < AT_ONCE) continue
    load('check', batch)
    yield
    batch = []
    size = 0
  }
  load('check', batch)
}

/** Loads a policy set into the engine under a name. Throws a PolicyError if the engine refuses it. */
export function load(name: string, policies: readonly PolicyText[]): void {
  const staticPolicies = Object.fromEntries(policies.map(({ name: id, text }) => [id, text]))
  const answer = engine.run((cedar) => cedar.preparsePolicySet(name, { staticPolicies }))
  if (answer.type === 'failure')
    throw new PolicyError([{ pointer: '/policies', message: answer.errors.map(({ message }) => message).join('; ') }])
}
