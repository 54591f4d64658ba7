import type { Context } from 'hono'
import type { TSchema } from 'typebox'
import type { Reservation } from '../../../server/budget.ts'
import type { ErrorCode } from '../../../server/errors.ts'
import type { RequestVariables } from '../../../server/request-id.ts'
import type { Actor, Role } from '../../authz/actor.ts'

interface Variables extends RequestVariables {
  readonly actor: Actor
  readonly held: Reservation
  readonly sent: { readonly text: string; readonly value: unknown } | undefined
}

export type RegistryEnv = { Variables: Variables }

export interface Answer {
  readonly description: string
  readonly schema?: TSchema
}

/** An operation of the API without its code: its route and its description. */
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

export type Handle = (c: Context<RegistryEnv>) => Promise<Response>

export interface Operation extends OperationDescription {
  /** Absent if it is answered before the app, by `catalogReads`. */
  readonly handle?: Handle
}
