import { type FileForm, isInFiles, nameInFile } from '../../../crds/settings/file-form.ts'
import type { SchemaNode, Static, TSchema } from '../../../crds/settings/schema.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import { caBundleFile } from './ca-bundle.ts'
import type { KeyRef, Resolver } from './resolver.ts'

/** The location of a settings block in its object, and what resolves and mounts the references in it. */
export interface MountPlace {
  readonly at: string
  readonly resolver: Resolver
  readonly mounts: Mounts
}

/**
 * Builds the form of a settings block in a configuration file (`asFile`): references become paths, false flags are
 * omitted, keys are sorted. A missing reference is a problem at its pointer.
 */
export const mounted = <S extends TSchema>(schema: S, value: Static<S>, place: MountPlace): Static<FileForm<S>> =>
  sortedKeys(fileValue(schema as SchemaNode, value, place, true)) as Static<FileForm<S>>

function fileValue(node: SchemaNode, value: unknown, place: MountPlace, isRequired: boolean): unknown {
  if (node.mountedAs !== undefined) return filePath(node, value, place, isRequired)
  if (Array.isArray(value)) {
    const { items } = node
    return items === undefined
      ? value
      : value
          .map((item, index) => fileValue(items, item, { ...place, at: `${place.at}/${index}` }, false))
          .filter((item) => item !== undefined)
  }
  return node.properties === undefined ? value : fileObject(node, value as Record<string, unknown>, place)
}

function fileObject(node: SchemaNode, value: Record<string, unknown>, place: MountPlace): Record<string, unknown> {
  const file: Record<string, unknown> = {}
  // The schema's order, so that the order of problems doesn't depend on the manifest.
  for (const [name, child] of Object.entries(node.properties ?? {})) {
    const field = value[name]
    if (field === undefined || !isInFiles(child) || isOff(child, field)) continue
    // Of a union, the other fields are no substitute for the one that is set.
    const isRequired = node.required?.includes(name) === true || node.exactlyOne?.includes(name) === true
    const inFile = fileValue(child, field, { ...place, at: `${place.at}/${name}` }, isRequired)
    if (inFile !== undefined && !isEmptyList(child, inFile)) file[nameInFile(name, child)] = inFile
  }
  return file
}

const isOff = (node: SchemaNode, value: unknown) => value === false && node.default === false

/** Tells whether a list of references is empty after resolving. */
const isEmptyList = ({ items }: SchemaNode, value: unknown) =>
  items?.mountedAs !== undefined && Array.isArray(value) && value.length === 0

/** A key of a ConfigMap as the widely used operator names it in bundles of SPIFFE. */
interface ConfigMapKey {
  readonly configMapName: string
  readonly configMapKey: string
}

const readKeyRef = (ref: KeyRef | ConfigMapKey): KeyRef =>
  'configMapName' in ref ? { name: ref.configMapName, key: ref.configMapKey } : ref

function filePath(
  { mountedAs }: SchemaNode,
  ref: unknown,
  { at, resolver, mounts }: MountPlace,
  isRequired: boolean,
): string | undefined {
  if (mountedAs === 'caBundle') return caBundleFile(ref as Parameters<typeof caBundleFile>[0], at, resolver, mounts)
  const { name, key } = readKeyRef(ref as KeyRef | ConfigMapKey)
  const isFound =
    mountedAs === 'secret' ? resolver.secretKey({ name, key }) : resolver.configMapKey({ name, key }) !== undefined
  if (!isFound && !isRequired) return undefined
  return mountedAs === 'secret' ? mounts.secretFile(name, key) : mounts.sourceFile(name, key)
}
