import { servedAuthz } from '../../crds/settings/auth/authz.ts'
import { asFile } from '../../crds/settings/file-form.ts'
import type { Static } from '../../crds/settings/schema.ts'

/** What callers may do: Cedar policies. */
export const authz = asFile(servedAuthz)

export type AuthzConfig = Static<typeof authz>
