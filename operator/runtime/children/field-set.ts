/**
 * Sets of fields as server-side apply writes them (`fieldsV1` of `metadata.managedFields`): `f:name` is a field,
 * `k:{…}` the list item with these keys, `v:…` an item of a set, `.` the thing itself; an empty object is a leaf.
 * Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
 */
export interface FieldSet {
  readonly [element: string]: FieldSet
}

/** Paths of elements; `*` matches any element. A path covers everything below it. */
export type FieldPaths = readonly (readonly string[])[]

const isEmpty = (set: FieldSet): boolean => Object.keys(set).length === 0

/** Returns the rest of the paths below an element, or undefined if one of them ends there and so covers it. */
export function pathsBelow(paths: FieldPaths, element: string): FieldPaths | undefined {
  const below = paths.filter(([first]) => first === element || first === '*').map((path) => path.slice(1))
  return below.some((path) => path.length === 0) ? undefined : below
}

export function splitSet(set: FieldSet, paths: FieldPaths): { covered: FieldSet; rest: FieldSet } {
  const covered: Record<string, FieldSet> = {}
  const rest: Record<string, FieldSet> = {}
  for (const [element, inner] of Object.entries(set)) {
    const below = pathsBelow(paths, element)
    if (below === undefined) covered[element] = inner
    else if (below.length === 0 || isEmpty(inner)) rest[element] = inner
    else {
      const split = splitSet(inner, below)
      if (!isEmpty(split.covered)) covered[element] = split.covered
      if (!isEmpty(split.rest)) rest[element] = split.rest
    }
  }
  return { covered, rest }
}

export function joinSets(a: FieldSet, b: FieldSet): FieldSet {
  const joined: Record<string, FieldSet> = { ...a }
  for (const [element, inner] of Object.entries(b)) {
    const other = joined[element]
    joined[element] = other === undefined ? inner : joinSets(other, inner)
  }
  return joined
}

/** Container and Service ports default to TCP. */
const KEY_DEFAULTS: Readonly<Record<string, unknown>> = { protocol: 'TCP' }

const isFields = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export function valueAt(value: unknown, element: string): unknown {
  const text = element.slice(2)
  switch (element.slice(0, 2)) {
    case 'f:':
      return isFields(value) && Object.hasOwn(value, text) ? value[text] : undefined
    case 'k:': {
      const keys = Object.entries(JSON.parse(text) as Record<string, unknown>)
      const matches = (item: unknown) =>
        isFields(item) && keys.every(([key, wanted]) => (item[key] ?? KEY_DEFAULTS[key]) === wanted)
      return Array.isArray(value) ? value.find(matches) : undefined
    }
    case 'v:': {
      const wanted: unknown = JSON.parse(text)
      return Array.isArray(value) ? value.find((item) => item === wanted) : undefined
    }
    case 'i:':
      return Array.isArray(value) ? value[Number(text)] : undefined
    default:
      return undefined
  }
}
