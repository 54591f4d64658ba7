/**
 * Derives the form of a settings block in a configuration file from its form in a manifest: references become paths.
 */
import type { TArray, TObject, TOptional, TProperties, TSchema, TString } from 'typebox'
import { limits } from './limits.ts'
import {
  type Defaulted,
  type FileUse,
  type Mounted,
  OWN_KEYWORDS,
  type Reader,
  type SchemaNode,
  Type,
  text,
} from './schema.ts'

interface MountedSchema<As extends Mounted = Mounted> extends TSchema {
  readonly mountedAs: As
}

interface Renamed<Name extends string> {
  readonly inFile: Name
}

export const inFile = <const Name extends string, S extends TSchema>(name: Name, schema: S): S & Renamed<Name> =>
  withKeywords(schema, { inFile: name })

/** Marks a reference whose value becomes a file. */
export const mountedAs = <const As extends Mounted, S extends TSchema>(kind: As, reference: S): S & MountedSchema<As> =>
  withKeywords(reference, { mountedAs: kind })

/**
 * Builds the schema of a file path, for manifests and configuration files alike. Unless `use` says otherwise, the content
 * may leave the pod.
 */
export const filePath = (readBy: Reader, description: string, use: FileUse = 'others') =>
  withKeywords(text(readBy, description, { min: 1, max: limits.url }), { namesFile: use })

/** Copies a schema by its property descriptors: a spread would lose some properties of TypeBox. */
const withKeywords = <S extends TSchema, Keywords extends object>(schema: S, keywords: Keywords): S & Keywords =>
  Object.assign(Object.create(Object.getPrototypeOf(schema), Object.getOwnPropertyDescriptors(schema)), keywords)

/**
 * A field's name in a file: the same, `xFile` for a reference `xRef`, `xFiles` for `xRefs`; none if the operator reads
 * it.
 */
type FileName<Name, S> =
  S extends MountedSchema<'nothing'>
    ? never
    : S extends Renamed<infer Own>
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

/** The schema of a value in a configuration file, derived from its schema in a manifest. */
export type FileForm<S extends TSchema> = S extends MountedSchema
  ? TString
  : S extends TObject<infer P>
    ? TObject<FileProperties<P>>
    : S extends TArray<infer Item>
      ? TArray<FileForm<Item>>
      : S

/** Tells whether configuration files have a field: it is not always refused, and the operator does not read it. */
export const isInFiles = ({ readBy, mountedAs }: Pick<SchemaNode, 'readBy' | 'mountedAs'>): boolean =>
  typeof readBy !== 'object' && mountedAs !== 'nothing'

/** Returns the name of a manifest's field in a configuration file. */
export function nameInFile(name: string, { inFile: own, mountedAs, items }: SchemaNode): string {
  if (own !== undefined) return own
  if (mountedAs !== undefined) return name.replace(/Ref$/, 'File')
  return items?.mountedAs === undefined ? name : name.replace(/Refs$/, 'Files')
}

const LEFT_OUT: ReadonlySet<string> = new Set(
  OWN_KEYWORDS.filter((keyword) => keyword !== 'namesFile' && keyword !== 'exactlyOne'),
)

const LARGEST: Readonly<Record<string, number>> = { int32: 2 ** 31 - 1, int64: Number.MAX_SAFE_INTEGER }

/**
 * Builds the schema of a block in a configuration file: the fields that are not refused, with limits and defaults, also
 * inside lists. The file's own checks enforce rules across fields.
 */
export function asFile<S extends TSchema>(schema: S): FileForm<S> {
  return fileSchema(schema as SchemaNode) as FileForm<S>
}

function fileSchema(node: SchemaNode): TSchema {
  if (node.mountedAs !== undefined)
    return Type.String({
      description: fileDescription(node),
      minLength: 1,
      maxLength: limits.url,
      namesFile: (node.mountedAs === 'caBundle' ? 'trust' : 'others') satisfies FileUse,
    })
  const kept = Object.fromEntries(
    Object.entries(node).filter(([keyword]) => !LEFT_OUT.has(keyword) && !keyword.startsWith('x-kubernetes-')),
  )
  if (node.properties !== undefined) {
    const { properties: _, required: __, ...options } = kept
    return Type.Object(fileProperties(node.properties, new Set(node.required)), {
      ...options,
      ...alternatives(node, node.properties),
    })
  }
  if (node.items !== undefined) {
    const isSet = node['x-kubernetes-list-type'] === 'set'
    return { ...kept, items: fileSchema(node.items), ...(isSet ? { uniqueItems: true } : {}) } as TSchema
  }
  if (typeof node.additionalProperties === 'object')
    return { ...kept, additionalProperties: fileSchema(node.additionalProperties) } as TSchema
  const largest = LARGEST[node.format ?? '']
  if (largest === undefined) return kept as TSchema
  const { format: _, ...number } = kept
  return { ...number, minimum: node.minimum ?? -largest, maximum: node.maximum ?? largest } as unknown as TSchema
}

/** Translates `exactlyOne` to the names in a file, where two references may have become one path. */
function alternatives({ exactlyOne }: SchemaNode, properties: Readonly<Record<string, SchemaNode>>) {
  if (exactlyOne === undefined) return {}
  return { exactlyOne: [...new Set(exactlyOne.map((name) => nameInFile(name, properties[name] ?? {})))] }
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
  return `${description} The path of a file, which is read again when it changes.`
}

/** Extends a block with fields that only a configuration file has, or that replace fields of the block. */
export const extend = <P extends TProperties, More extends TProperties>(
  { properties, required: _, ...options }: TObject<P>,
  more: More,
): TObject<Omit<P, keyof More> & More> =>
  Type.Object({ ...properties, ...more }, options) as unknown as TObject<Omit<P, keyof More> & More>

/**
 * Removes file paths from a schema, for callers of an API, and objects that require one. Keeps the type, which covers
 * every accepted value.
 */
export const withoutFiles = <S extends TSchema>(schema: S): S => (pathless(schema as SchemaNode) ?? schema) as S

function pathless(node: SchemaNode): TSchema | undefined {
  if (node.namesFile !== undefined) return undefined
  if (node.items !== undefined) {
    const items = pathless(node.items)
    return items && ({ ...node, items } as TSchema)
  }
  const { properties, required, exactlyOne, ...options } = node
  if (properties === undefined) return node as TSchema
  const kept: TProperties = {}
  for (const [name, child] of Object.entries(properties)) {
    const form = pathless(child)
    const isRequired = required?.includes(name) === true
    if (form === undefined && isRequired) return undefined
    if (form !== undefined) kept[name] = isRequired ? form : Type.Optional(form)
  }
  const others = exactlyOne && { exactlyOne: exactlyOne.filter((name) => Object.hasOwn(kept, name)) }
  return Type.Object(kept, { ...(options as Record<string, unknown>), ...others })
}
