import { isObject } from '../../../crds/shared/json.ts'
import { isId, type Message } from './message.ts'

/** Whether progress (`params`, any JSON value) is told under the token of this call, which may come back as a text. */
export function isAboutCall(params: unknown, { meta }: Message): boolean {
  const [asked, told] = [meta?.['progressToken'], isObject(params) ? params['progressToken'] : undefined]
  return isId(asked) && isId(told) && String(asked) === String(told)
}
