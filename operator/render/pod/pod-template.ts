import { sortedKeys } from '../object/canonical.ts'
import { canonicalQuantity } from '../object/quantity.ts'
import { containerFields, mergeKeys, podFields, templateFields } from './pod-template-fields.ts'

export interface PodTemplate {
  metadata: { labels?: Record<string, string>; annotations?: Record<string, string> }
  spec: Record<string, unknown>
}

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const containerLists = ['containers', 'initContainers', 'ephemeralContainers']

const shapeOf = (value: unknown) => (Array.isArray(value) ? 'a list' : isFields(value) ? 'an object' : 'a value')

/** Finds what can't be merged over `base`; the pointers are relative to the template. */
function check(value: unknown, base: unknown, pointer: string, key: string, problems: string[]): void {
  if (value === null || value === undefined) return
  if (base !== undefined && shapeOf(value) !== shapeOf(base))
    problems.push(`${pointer}: ${shapeOf(base)} is expected here`)
  else if (Array.isArray(value)) checkItems(value, (base ?? []) as readonly unknown[], pointer, key, problems)
  else if (isFields(value)) {
    for (const [name, field] of Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) {
      if (name.startsWith('$')) problems.push(`${pointer}/${name}: patch directives are not supported`)
      else check(field, isFields(base) ? base[name] : undefined, `${pointer}/${name}`, name, problems)
    }
  }
}

function checkItems(
  items: readonly unknown[],
  base: readonly unknown[],
  pointer: string,
  key: string,
  problems: string[],
): void {
  const mergeKey = mergeKeys[key]
  items.forEach((item, at) => {
    const place = `${pointer}/${at}`
    if (!isFields(item)) {
      if (mergeKey !== undefined) problems.push(`${place}: an object is expected here`)
      return
    }
    if (mergeKey !== undefined && item[mergeKey] === undefined) problems.push(`${place}: ${mergeKey} is missing`)
    if (containerLists.includes(key)) unknownFields(item, containerFields, place, problems)
    const under = mergeKey && base.find((candidate) => isFields(candidate) && candidate[mergeKey] === item[mergeKey])
    check(item, under || undefined, place, '', problems)
  })
}

function unknownFields(value: Fields, known: ReadonlySet<string>, pointer: string, problems: string[]): void {
  for (const name of Object.keys(value).sort()) {
    if (!known.has(name) && !name.startsWith('$')) problems.push(`${pointer}/${name}: there is no such field`)
  }
}

/** Merges as Kubernetes' strategic merge patch does: objects by field, some lists by key, `null` takes a field away. */
function merge(base: unknown, patch: unknown, key: string): unknown {
  if (isFields(patch)) {
    const merged: Record<string, unknown> = isFields(base) ? { ...base } : {}
    for (const [name, value] of Object.entries(patch)) {
      if (value === null) delete merged[name]
      else merged[name] = merge(merged[name], value, name)
    }
    return merged
  }
  const mergeKey = Array.isArray(patch) ? mergeKeys[key] : undefined
  if (mergeKey === undefined || !Array.isArray(base)) return Array.isArray(patch) ? patch.map(withoutNulls) : patch
  const items = [...(base as Fields[])]
  for (const item of patch as Fields[]) {
    const at = items.findIndex((candidate) => candidate[mergeKey] === item[mergeKey])
    if (at < 0) items.push(withoutNulls(item) as Fields)
    else items[at] = merge(items[at], item, '') as Fields
  }
  return items
}

const withoutNulls = (value: unknown): unknown => (isFields(value) ? merge({}, value, '') : value)

/** Containers whose resources came from the template: quantities in the form in which the API server gives them back. */
function canonicalResources(spec: Fields, problems: string[]): void {
  for (const list of containerLists) {
    for (const { name, resources } of (spec[list] ?? []) as Fields[]) {
      if (!isFields(resources)) continue
      for (const part of ['requests', 'limits'])
        canonicalQuantities(resources[part], `/spec/${list}: container ${String(name)}: ${part}`, problems)
    }
  }
}

function canonicalQuantities(quantities: unknown, title: string, problems: string[]): void {
  if (!isFields(quantities)) return
  for (const [name, value] of Object.entries(quantities)) {
    const canonical = canonicalQuantity(String(value))
    if (canonical === undefined) problems.push(`${title}.${name} is not a quantity`)
    else (quantities as Record<string, unknown>)[name] = canonical
  }
}

/** A container without an image is one that a patch meant to change and missed. */
function checkImages(spec: Fields, problems: string[]): void {
  const named = (list: string) => ((spec[list] ?? []) as Fields[]).map(({ name }) => String(name))
  for (const list of containerLists) {
    for (const { name, image } of (spec[list] ?? []) as Fields[]) {
      if (image !== undefined) continue
      const elsewhere = containerLists.find((other) => other !== list && named(other).includes(String(name)))
      const hint = elsewhere
        ? `it is one of ${elsewhere} here`
        : `there is none of this name; there are ${[...named('initContainers'), ...named('containers')].filter((other) => other !== name).join(', ')}`
      problems.push(`/spec/${list}: container ${JSON.stringify(name)} has no image: ${hint}`)
    }
  }
}

/**
 * Our pod template with the user's merged over it. `kept` are the labels that select the pods: a template may repeat
 * them, not change them. Whatever is wrong is added to `problems`, each with its pointer in `podTemplateSpec`; the
 * template that comes back is then of no use.
 */
export function mergePodTemplate(
  base: PodTemplate,
  patch: Fields | undefined,
  kept: Readonly<Record<string, string>>,
  problems: string[],
): PodTemplate {
  if (patch === undefined) return base
  unknownFields(patch, templateFields, '', problems)
  if (isFields(patch['spec'])) unknownFields(patch['spec'], podFields, '/spec', problems)
  check(patch, base, '', '', problems)
  if (problems.length > 0) return base
  const merged = merge(base, sortedKeys(patch), '') as PodTemplate
  for (const [name, value] of Object.entries(kept)) {
    if (merged.metadata.labels?.[name] !== value) problems.push(`/metadata/labels/${name}: this label selects the pods`)
  }
  checkImages(merged.spec, problems)
  canonicalResources(merged.spec, problems)
  return merged
}
