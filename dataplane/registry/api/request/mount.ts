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
  /** Builds the refusal of callers who have no token but need one. */
  challenge(): PublicError
}

/** Routes the operations. Other methods on their paths get a 405 with the allowed ones. */
export function mount(app: Hono<RegistryEnv>, operations: readonly Operation[], options: MountOptions): void {
  const paths = Map.groupBy(operations, ({ path }) => path)
  for (const [path, onPath] of paths) {
    const allow = allowed(path, onPath)
    for (const route of listRoutes(path)) {
      for (const { id, method, role, handle } of onPath) {
        const told = [
          observeRequest(options.observe, { id, path }),
          auditOperation(options.audit, { id, method }),
        ] as const
        app.on(method.toUpperCase(), route, ...told, (c) => {
          if (role !== undefined) requireRole(c.var.actor, role, options)
          // Paths that are answered before the app arrive here only if they had to be resolved: `/a/../registry/…`.
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

/** Returns the routes of a path template. Some clients and proxies send the slash of an entry's name unencoded. */
function listRoutes(path: string): readonly string[] {
  const route = path.replace(/\{(\w+)\}/g, ':$1')
  return route.includes(':entry') ? [route, route.replace(':entry', ':namespace/:short')] : [route]
}

/** Returns the allowed methods. `crossOrigin` answers the OPTIONS of other origins, for the catalog only. */
function allowed(path: string, operations: readonly Operation[]): string {
  const methods = operations.map(({ method }) => method.toUpperCase())
  if (methods.includes('GET')) methods.push('HEAD')
  if (path.startsWith('/registry/')) methods.push('OPTIONS')
  return methods.join(', ')
}
