import { loginCallback } from './login-pages.ts'
import { access, accessHome, connect, help, log, map, source, workloadMap } from './object-pages.ts'
import { home, workload, workloads } from './pages.ts'
import { catalog, catalogEntry, changes, changesHome, usage, usageHome } from './rest-pages.ts'
import { tools, tryTool } from './try-pages.ts'
import type { Page } from './visit.ts'

const OBJECT = '/ns/:ns/:short/:name'

export const routes: Readonly<Record<string, Page>> = {
  '/': home,
  '/workloads': workloads,
  '/map': map,
  '/access': accessHome,
  '/changes': changesHome,
  '/usage': usageHome,
  '/catalog': catalog,
  '/catalog/:registry': catalog,
  '/catalog/:registry/:namespace/:server': catalogEntry,
  '/client/callback': loginCallback,
  '/help': help,
  '/help/:page': help,
  [OBJECT]: workload,
  [`${OBJECT}/tools`]: tools,
  [`${OBJECT}/tools/:tool`]: tryTool,
  [`${OBJECT}/map`]: workloadMap,
  [`${OBJECT}/access`]: access,
  [`${OBJECT}/changes`]: changes,
  [`${OBJECT}/usage`]: usage,
  [`${OBJECT}/connect`]: connect,
  [`${OBJECT}/yaml`]: source,
  [`${OBJECT}/log`]: log,
}
