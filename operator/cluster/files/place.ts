import { kindNamed } from '../../../crds/index.ts'
import type { KubernetesObject } from '../../model/view.ts'

/** A part of what a condition says, and what in the object it is about. */
export interface Placed {
  readonly message: string
  /** JSON pointer (RFC 6901) into the object, where the message tells one or names what the object refers to. */
  readonly pointer?: string
}

/** A condition joins what is wrong by semicolons; each part begins with a pointer or with the object that it is about. */
const NEXT_PART = /; (?=\/spec\/|[A-Z]\w+ "[^"]+"(?:: | is missing| has no key))/
const AT_POINTER = /^(\/spec\/[^\s,:]+)[,:]? (.*)$/s
const ABOUT_OBJECT = /^([A-Z]\w+) "([^"]+)"/

/** The parts of a condition's message, each with its place. */
export const placedParts = (object: KubernetesObject, kind: string, message: string): readonly Placed[] =>
  message.split(NEXT_PART).map((part) => placed(object, kind, part))

function placed(object: KubernetesObject, kind: string, message: string): Placed {
  const [, pointer, said] = AT_POINTER.exec(message) ?? []
  if (pointer !== undefined && said !== undefined) return { message: said, pointer }
  const [, ofKind, name] = ABOUT_OBJECT.exec(message) ?? []
  const reference = ofKind === undefined || name === undefined ? undefined : referenceTo(object, kind, ofKind, name)
  return reference === undefined ? { message } : { message, pointer: reference }
}

/** Where the object names another one first. */
function referenceTo(object: KubernetesObject, kind: string, ofKind: string, name: string): string | undefined {
  const declaration = kindNamed(kind)
  const all = declaration ? [...declaration.references, ...declaration.coreReferences] : []
  const [first] = all
    .filter((reference) => [reference.kind].flat().includes(ofKind))
    .flatMap(({ places }) => places(object['spec'] as never, name))
  return first && `/spec${first}`
}
