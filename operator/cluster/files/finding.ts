/** Which object a finding is about. */
export interface ObjectId {
  readonly kind: string
  readonly namespace: string
  readonly name: string
}

export type Severity = 'error' | 'warning' | 'note'

/** Something to say about a manifest, with the place where it stands. */
export interface ManifestFinding {
  readonly severity: Severity
  /** CamelCase, stable: what kind of finding this is. */
  readonly reason: string
  readonly message: string
  /** The path as the caller gave it, joined with the name found below it. */
  readonly file: string
  /** Counted from 1; 1 where the whole file is meant. */
  readonly line: number
  /** JSON pointer (RFC 6901) into the object. */
  readonly pointer?: string
  readonly object?: ObjectId
}

export const objectKey = (id: ObjectId): string => `${id.kind}/${id.namespace}/${id.name}`
