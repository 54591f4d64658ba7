import { limits } from '../../crds/settings/limits.ts'
import { atOnce, type Steps, stepwise } from '../../crds/settings/stepwise.ts'
import { EngineFault, engine } from './engine.ts'
import { type DeclaredEntities, readingEntities } from './entities.ts'
import { DEEPEST, entityKey, readsOf } from './expressions.ts'
import { type PolicyText, readingPolicies } from './policy-text.ts'
import { actions, GROUP, listActions, PolicyError, type PolicyProblem, type PolicySource } from './source.ts'

/** A source that was checked, and what is known of it. */
export interface Compiled {
  readonly policies: readonly PolicyText[]
  readonly entities: DeclaredEntities
  /** Names of all attributes that some policy reads and that hold a claim, `claim_<name>`. */
  readonly claims: ReadonlySet<string>
  /** Declared entities that a policy names. */
  readonly named: readonly string[]
  /** Every entity that a policy or a declared entity names. */
  readonly mentioned: ReadonlySet<string>
  readonly groupEntityType: string
}

/** What the name of an attribute begins with that holds a claim of the caller. */
export const CLAIM = 'claim_'
/** The most policies, and the most characters of all together. */
const { policies: MOST_POLICIES, policyText: MOST_TEXT } = limits
/** Characters of a pattern: matching takes pattern times text. */
const LONGEST_PATTERN = 512
const GROUP_TYPE = /^[A-Za-z_][A-Za-z0-9_]*$/
const OWN_TYPES = new Set(['Client', 'Action', 'Tool', 'Prompt', 'Resource', 'MCP', 'Backend'])

/**
 * What was compiled to be checked, until it is put in force: a source at its bounds takes half a second, in which a gateway
 * does nothing else.
 */
const checked = new WeakMap<PolicySource, Compiled>()

/** The same as `compile`, of a source that has been checked without compiling it once more. */
export function compiledOf(source: PolicySource): Compiled {
  const known = checked.get(source)
  checked.delete(source)
  return known ?? compile(source)
}

/** Compiles policies and entities. Throws a PolicyError with everything that is wrong. */
export const compile = (source: PolicySource): Compiled => atOnce(compiling(source))

/** The same in steps. */
function* compiling(source: PolicySource): Steps<Compiled> {
  const problems: PolicyProblem[] = []
  const entities = yield* collect(problems, readingEntities(source.entitiesJson ?? '[]'))
  const policies = (yield* collect(problems, policiesOf(source.policies))) ?? []
  const { groupEntityType = GROUP } = source
  if (!GROUP_TYPE.test(groupEntityType) || OWN_TYPES.has(groupEntityType))
    problems.push({ pointer: '/groupEntityType', message: 'must be an entity type that has no other meaning here' })
  problems.push(...policies.flatMap((policy) => problemsOf(policy, entities?.mentioned ?? new Set())))
  if (problems.length === 0) yield* collect(problems, loading(policies))
  if (problems.length > 0 || entities === undefined) throw new PolicyError(problems)
  const reads = readsOf(policies.map(({ mentions }) => mentions))
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

function* collect<T>(problems: PolicyProblem[], steps: Steps<T>): Steps<T | undefined> {
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
  // Each text holds a policy at least, or is wrong: nobody is told what is wrong with each of so many.
  if (texts.length > MOST_POLICIES) throw tooMany()
  const problems: PolicyProblem[] = []
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

/** What the language allows and nobody could act on. */
function problemsOf(
  { name, effect, mentions, annotations }: PolicyText,
  declared: ReadonlySet<string>,
): readonly PolicyProblem[] {
  // Other engines hold calls up for some of them (`@requireApproval`): to pass over one would be to allow more.
  const found = annotations.map(
    (annotation) => `has the annotation @${annotation}, which has no effect here; there is @id`,
  )
  if (mentions.usesWholeContext) found.push('uses context as a whole; name its attributes instead')
  if (mentions.depth > DEEPEST) found.push('is nested too deep, or chains too many operators; split it')
  if (mentions.longestPattern > LONGEST_PATTERN) found.push(`has a pattern of more than ${LONGEST_PATTERN} characters`)
  if (effect === 'forbid') found.push(...ineffective(mentions.entities, declared))
  return found.map((message) => ({ pointer: `/policies/${name.split('.')[0]}`, message }))
}

/** Why a forbid would keep nobody from anything: it is of an action that is never asked about. */
function* ineffective(entities: ReadonlySet<string>, declared: ReadonlySet<string>): Generator<string> {
  const known = new Set(actions.map((action) => entityKey('Action', action)))
  for (const key of entities) {
    if (!key.startsWith('Action::') || known.has(key) || declared.has(key)) continue
    if (listActions.some((action) => key === entityKey('Action', action)))
      yield `forbids ${key}: lists are always given, filtered by ${actions.join(', ')}; forbid those`
    else yield `forbids ${key}, which is no action here; there are ${actions.join(', ')}`
  }
}

/** Everything that is wrong with a source. Compiles it, which takes up to a second of a source at its bounds. */
export const policyProblems = (source: PolicySource): readonly PolicyProblem[] => atOnce(findingProblems(source))

/** The same, in a longer time, in which others are served. */
export const policyProblemsStepwise = (source: PolicySource): Promise<readonly PolicyProblem[]> =>
  stepwise(findingProblems(source))

function* findingProblems(source: PolicySource): Steps<readonly PolicyProblem[]> {
  try {
    checked.set(source, yield* compiling(source))
    return []
  } catch (error) {
    if (error instanceof PolicyError) return error.problems
    throw error
  }
}

/** Characters of policies that the engine is given in one step. */
const AT_ONCE = 16 * 1024

/** Has the engine take policies as sets. Throws a PolicyError where it does not. */
function* loading(policies: readonly PolicyText[]): Steps<void> {
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

/** Gives the engine a policy set under a name. Throws a PolicyError where it does not take it. */
export function load(name: string, policies: readonly PolicyText[]): void {
  const staticPolicies = Object.fromEntries(policies.map(({ name: id, text }) => [id, text]))
  const answer = engine.run((cedar) => cedar.preparsePolicySet(name, { staticPolicies }))
  if (answer.type === 'failure')
    throw new PolicyError([{ pointer: '/policies', message: answer.errors.map(({ message }) => message).join('; ') }])
}
