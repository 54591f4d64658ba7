import { kindNamed } from '../../../crds/index.ts'
import type { KubernetesObject, ObjectName } from '../../model/view.ts'
import { type Problem, problemText, withoutSecrets } from '../../reconcile/outcome/problems.ts'

/** What is wrong with an object, and where in it. */
export interface PlacedProblem {
  readonly message: string
  /** JSON pointer (RFC 6901) into the object: to the value that is wrong, or to the name of what is referred to. */
  readonly pointer?: string
}

/** The problems of an object, each at its place; one without a place is appended to the one before it. */
export function placedProblems(object: KubernetesObject, problems: readonly Problem[]): readonly PlacedProblem[] {
  const placed: { message: string; pointer?: string }[] = []
  for (const problem of problems.map(withoutSecrets)) {
    const pointer = problem.pointer ?? (problem.about && referenceTo(object, problem.about))
    const previous = placed.at(-1)
    if (problem.pointer === undefined && problem.about === undefined && previous !== undefined)
      previous.message += `; ${problemText(problem)}`
    else placed.push({ message: problem.message, ...(pointer === undefined ? {} : { pointer }) })
  }
  return placed
}

/** Where the object names another one first. */
function referenceTo(object: KubernetesObject, { kind, name }: ObjectName): string | undefined {
  const declaration = kindNamed(object.kind)
  const all = declaration ? [...declaration.references, ...declaration.coreReferences] : []
  const [first] = all
    .filter((reference) => [reference.kind].flat().includes(kind))
    .flatMap(({ places }) => places(object['spec'] as never, name))
  return first && `/spec${first}`
}
