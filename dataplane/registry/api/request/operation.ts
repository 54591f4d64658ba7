import type { Context } from 'hono'
import type { TSchema } from 'typebox'
import type { Role } from '../../../config/registry.ts'
import type { Reservation } from '../../../server/budget.ts'
import type { ErrorCode } from '../../../server/errors.ts'
import type { RequestVariables } from '../../../server/request-id.ts'
import type { Actor, Visibility } from '../../authz/access.ts'
import type { Identity } from '../../settings/identity.ts'
import type { AdminWriter } from '../../store/database/records.ts'
import type { Reader } from '../../store/read/read.ts'
import type { Scheduler } from '../../sync/schedule.ts'

interface Variables extends RequestVariables {
  readonly actor: Actor
  readonly held: Reservation
  readonly sent: { readonly text: string; readonly value: unknown } | undefined
}

export type RegistryEnv = { Variables: Variables }

interface Answer {
  readonly description: string
  readonly schema?: TSchema
}

export interface OperationDescription {
  readonly id: string
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  readonly path: string
  readonly summary: string
  readonly tag: 'catalog' | 'sources' | 'registries' | 'entries' | 'identity'
  readonly parameters?: Readonly<Record<string, TSchema>>
  readonly query?: Readonly<Record<string, TSchema>>
  readonly body?: TSchema
  readonly answers: Readonly<Record<number, Answer>>
  readonly errors: readonly ErrorCode[]
  readonly role?: Role
}

export interface Operation extends OperationDescription {
  /** Absent if `catalogReads` answers it, before the app. */
  readonly handle?: (c: Context<RegistryEnv>) => Promise<Response>
}

interface Syncs extends Pick<Scheduler, 'state' | 'syncNow'> {
  /** Must be called after a change of sources: it starts and stops their syncs. */
  changed(): Promise<void>
}

/** The parts of the registry that handlers use. */
export interface Api {
  readonly reader: Reader
  readonly writer: AdminWriter
  readonly identity: Identity
  readonly syncs: Syncs
  findVisibility(actor: Actor): Visibility
  /** Aborted when the registry stops. Requests that wait for a change are answered then. */
  readonly ending: AbortSignal
  /** The limits of the configuration in force. */
  limits(): { readonly bodyBytes: number; readonly managedBytes: number; readonly privateSources: 'allow' | 'deny' }
}

/** Returns the current time as the store holds it: a text in UTC with milliseconds. */
export const now = () => new Date().toISOString()
