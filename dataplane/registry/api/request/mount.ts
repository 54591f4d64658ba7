import type { Hono } from 'hono'
import type { Auditing } from '../../../audit/event.ts'
import { PublicError } from '../../../server/errors.ts'
import type { Observe } from '../../../telemetry/observe.ts'
import type { Role } from '../../authz/actor.ts'
import { type Actor, hasRole } from '../../authz/actor.ts'
import { auditOperation } from './audit-request.ts'
import { observeRequest } from './observe-request.ts'
import type { Operation, RegistryEnv } from './operation.ts'

interface MountOptions {
  readonly observe: Observe
  readonly audit: Auditing
  /** The refusal of callers who have no token where one is needed. */
  challenge(): PublicError
}

/** Routes the operations. Their paths answer other methods with 405 and what they allow. */
export function mount(app: Hono<RegistryEnv>, operations: readonly Operation[], options: MountOptions): void {
  const paths = Map.groupBy(operations, ({ path }) => path)
  for (const [path, onPath] of paths) {
    const allow = allowed(path, onPath)
    for (const route of routesOf(path)) {
      for (const { id, method, role, handle } of onPath) {
        const told = [
          observeRequest(options.observe, { id, path }),
          auditOperation(options.audit, { id, method }),
        ] as const
        app.on(method.toUpperCase(), route, ...told, (c) => {
          if (role !== undefined) requireRole(c.var.actor, role, options)
          // What is answered before the app comes here only where its path has been resolved: `/a/../registry/…`.
          if (handle === undefined) throw new PublicError('not_found')
          return handle(c)
        })
      }
      app.all(route, () => {
        throw new PublicError('method_not_allowed', { headers: { allow } })
      })
    }
  }
}

function requireRole(actor: Actor, role: Role, { challenge }: MountOptions): void {
  if (actor.mode !== 'anonymous' && actor.subject === undefined) throw challenge()
  if (!hasRole(actor, role)) throw new PublicError('forbidden_role')
}

/** Routes of a path template. Some clients, and proxies that decode paths, send the slash of an entry's name as it is. */
function routesOf(path: string): readonly string[] {
  const route = path.replace(/\{(\w+)\}/g, ':$1')
  return route.includes(':entry') ? [route, route.replace(':entry', ':namespace/:short')] : [route]
}

/** Pages of other origins ask by OPTIONS, of the catalog alone: `crossOrigin` answers that. */
function allowed(path: string, operations: readonly Operation[]): string {
  const methods = operations.map(({ method }) => method.toUpperCase())
  if (methods.includes('GET')) methods.push('HEAD')
  if (path.startsWith('/registry/')) methods.push('OPTIONS')
  return methods.join(', ')
}
