/** The thread that runs long checks one after the other. */
import { parentPort } from 'node:worker_threads'
import { runCheck } from '../../../dataplane/config/check/long-check.ts'
// Loads every module that declares a check.
import '../../reconcile/index.ts'

export interface CheckCall {
  readonly check: string
  readonly input: unknown
}

parentPort?.on('message', ({ check, input }: CheckCall) => parentPort?.postMessage(runCheck(check, input)))
