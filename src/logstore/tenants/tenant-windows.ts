/** The windows of all tenants that sent something. */
import { AdmissionWindow } from './admission-window.ts'
import type { QuotaWindow } from './admission-window.ts'
import { SmoothWindow } from './smooth-window.ts'
import type { Tenant, TenantPolicy } from './tenant-policy.ts'

export class TenantWindows {
  readonly #windows = new Map<string, { readonly window: QuotaWindow; readonly isSmooth: boolean }>()

  of({ id, limits, options: { smoothQuota } }: Tenant): QuotaWindow {
    const known = this.#windows.get(id)
    if (known) return known.window
    const window = smoothQuota ? new SmoothWindow(limits) : new AdmissionWindow(limits)
    this.#windows.set(id, { window, isSmooth: smoothQuota })
    return window
  }

  /** Windows of tenants that stay keep what was used. `nowMs` is monotonic. */
  applyPolicy(policy: TenantPolicy, nowMs: number): void {
    for (const [id, { window, isSmooth }] of this.#windows) {
      const tenant = policy.tenants.find((candidate) => candidate.id === id)
      if (tenant === undefined) this.#windows.delete(id)
      else if (tenant.options.smoothQuota === isSmooth) window.applyLimits(tenant.limits)
      else {
        this.#windows.delete(id)
        this.of(tenant).takeOver(nowMs, window.used(nowMs))
      }
    }
  }
}
