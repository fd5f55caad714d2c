"""The cluster: members, the assignor, the group, who holds what."""
