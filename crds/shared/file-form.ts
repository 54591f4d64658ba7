/**
 * The form that a block of settings has in a configuration file, derived from the one that it has in a manifest: what a
 * manifest names by reference is the path of a file there, and nothing of Kubernetes is left.
 */
import type { TArray, TObject, TOptional, TProperties, TSchema, TString } from 'typebox'
import { limits } from './limits.ts'
import { type Defaulted, type Mounted, OWN_KEYWORDS, type SchemaNode, Type } from './schema.ts'

/** A schema whose value stands in another object. */
interface MountedSchema<As extends Mounted = Mounted> extends TSchema {
  readonly mountedAs: As
}

/** A field that has another name in a configuration file. */
interface Renamed<Name extends string> {
  readonly inFile: Name
}

/** Gives a field another name in configuration files. */
export const inFile = <const Name extends string, S extends TSchema>(name: Name, schema: S): S & Renamed<Name> =>
  withKeywords(schema, { inFile: name })

/** Marks a reference whose value becomes a file. */
export const mountedAs = <const As extends Mounted, S extends TSchema>(kind: As, reference: S): S & MountedSchema<As> =>
  withKeywords(reference, { mountedAs: kind })

/** A copy by descriptors: TypeBox keeps what it knows of a schema in properties that a spread would lose. */
const withKeywords = <S extends TSchema, Keywords extends object>(schema: S, keywords: Keywords): S & Keywords =>
  Object.assign(Object.create(Object.getPrototypeOf(schema), Object.getOwnPropertyDescriptors(schema)), keywords)

/** The name of a field in a file: its own, `xFile` for a reference `xRef`, `xFiles` for a list of references `xRefs`. */
type FileName<Name, S> =
  S extends Renamed<infer Own>
    ? Own
    : S extends MountedSchema
      ? Name extends `${infer Stem}Ref`
        ? `${Stem}File`
        : Name
      : S extends TArray<MountedSchema>
        ? Name extends `${infer Stem}Refs`
          ? `${Stem}Files`
          : Name
        : Name

type FileProperties<P extends TProperties> = {
  [Name in keyof P as FileName<Name, P[Name]>]: P[Name] extends TOptional | Defaulted
    ? TOptional<FileForm<P[Name]>>
    : FileForm<P[Name]>
}

/** The schema of a value in a configuration file, by the schema that it has in a manifest. */
export type FileForm<S extends TSchema> = S extends MountedSchema
  ? TString
  : S extends TObject<infer P>
    ? TObject<FileProperties<P>>
    : S extends TArray<infer Item>
      ? TArray<FileForm<Item>>
      : S

/** Whether files have a field: one that is refused with its reason wherever it is set, or read by the operator, they have not. */
export const isInFiles = ({ readBy, mountedAs }: Pick<SchemaNode, 'readBy' | 'mountedAs'>): boolean =>
  typeof readBy !== 'object' && mountedAs !== 'nothing'

/** The name that a field of a manifest has in a configuration file. */
export function nameInFile(name: string, { inFile: own, mountedAs, items }: SchemaNode): string {
  if (own !== undefined) return own
  if (mountedAs !== undefined) return name.replace(/Ref$/, 'File')
  return items?.mountedAs === undefined ? name : name.replace(/Refs$/, 'Files')
}

const OWN: ReadonlySet<string> = new Set(OWN_KEYWORDS)

/**
 * The schema of a block in a configuration file.
 *
 * @param schema the block as it stands in manifests
 * @returns the same fields but for those that are refused, with the same limits and defaults; also inside lists, where a
 *   CRD has no defaults. Rules across fields are not in it: the file's own checks hold these.
 */
export function asFile<S extends TSchema>(schema: S): FileForm<S> {
  return fileSchema(schema as SchemaNode) as FileForm<S>
}

function fileSchema(node: SchemaNode): TSchema {
  if (node.mountedAs !== undefined)
    return Type.String({ description: fileDescription(node), minLength: 1, maxLength: limits.url })
  const kept = Object.fromEntries(
    Object.entries(node).filter(([keyword]) => !OWN.has(keyword) && !keyword.startsWith('x-kubernetes-')),
  )
  if (node.properties !== undefined) {
    const { properties: _, required: __, ...options } = kept
    return Type.Object(fileProperties(node.properties, new Set(node.required)), options)
  }
  if (node.items !== undefined) {
    const isSet = node['x-kubernetes-list-type'] === 'set'
    return { ...kept, items: fileSchema(node.items), ...(isSet ? { uniqueItems: true } : {}) } as TSchema
  }
  if (typeof node.additionalProperties === 'object')
    return { ...kept, additionalProperties: fileSchema(node.additionalProperties) } as TSchema
  return kept as TSchema
}

function fileProperties(properties: Readonly<Record<string, SchemaNode>>, required: ReadonlySet<string>): TProperties {
  return Object.fromEntries(
    Object.entries(properties)
      .filter(([, child]) => isInFiles(child))
      .map(([name, child]) => {
        const form = fileSchema(child)
        return [nameInFile(name, child), required.has(name) ? form : Type.Optional(form)]
      }),
  )
}

function fileDescription({ description = '', mountedAs }: SchemaNode): string {
  if (mountedAs === 'caBundle') return `${description} The path of a PEM file.`
  return `${description} The path of a file, which is read anew when it changes.`
}

/** A block with fields that only a configuration file has, or that replace its own. */
export const extended = <P extends TProperties, More extends TProperties>(
  { properties, required: _, ...options }: TObject<P>,
  more: More,
): TObject<Omit<P, keyof More> & More> =>
  Type.Object({ ...properties, ...more }, options) as unknown as TObject<Omit<P, keyof More> & More>
