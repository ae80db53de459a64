import { deleteMetricDashboard } from '@bursar/contract'
import { useChange } from '../../app/api.ts'
import { useSetSearch } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { Confirm } from '../../kit/dialog.tsx'
import { Failed } from '../../kit/states.tsx'
import { toast } from '../../kit/toast.tsx'
import type { Board } from './view.ts'

/** Asks before a dashboard of the organization is deleted. */
const Remove = ({ board: { id, name }, onClose }: { board: Board; onClose: () => void }) => {
  const setSearch = useSetSearch()
  const remove = useChange(deleteMetricDashboard, ['metrics'])
  return (
    <Confirm
      title={t.metrics.removeTitle}
      act={t.metrics.remove}
      busy={remove.isPending}
      error={remove.error && <Failed error={remove.error} />}
      onClose={onClose}
      onAct={() =>
        remove.mutate(
          { params: { id } },
          {
            onSuccess: () => {
              toast(t.metrics.removed)
              setSearch({ dashboard: undefined, table: undefined })
              onClose()
            },
          },
        )
      }
    >
      <p>{t.metrics.removeAbout(name)}</p>
    </Confirm>
  )
}
export default Remove
