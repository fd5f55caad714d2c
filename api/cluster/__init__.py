"""Who answers: routing, peers and the connections to them."""
